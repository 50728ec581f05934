#include "booster/config/decoder_models.h"

#include "booster/config/options/options.h"
#include "core/nn/models.h"
#include "core/nn/rotary.h"

namespace booster {

namespace {

using Fields = models::DecoderOptions;

FieldRow<Fields> size(const char* option, const Fields& usual,
                      std::optional<int64_t> Fields::*member, int64_t least,
                      const char* description) {
  const auto most = static_cast<double>(int64_t{1} << 40);
  return {integer_option(option, *(usual.*member), between(static_cast<double>(least), most),
                         description),
          [=](Fields& fields, const OptionValues& values) {
            fields.*member = values.get<int64_t>(option);
          }};
}

// Returns the row of a size that other options determine if it is null.
FieldRow<Fields> derived_size(const char* option, std::optional<int64_t> Fields::*member,
                              const char* description) {
  return field(integer_option(option, 1, at_least(1), description), member);
}

// Returns the row of an option of the rotary embedding. Null keeps the model's own value.
template <class T>
FieldRow<Fields> rope(Option option, T RotaryOptions::*member) {
  const std::string name = option.name;
  return {std::move(option), [=](Fields& fields, const OptionValues& values) {
            fields.rotary.*member = values.get<T>(name);
          }};
}
template <class T>
FieldRow<Fields> rope(Option option, std::optional<T> RotaryOptions::*member) {
  const std::string name = option.name;
  return {or_null(std::move(option)), [=](Fields& fields, const OptionValues& values) {
            fields.rotary.*member = values.given<T>(name);
          }};
}

std::vector<FieldRow<Fields>> rope_rows() {
  const RotaryOptions usual;
  return {
      rope(number_option("rope_theta", usual.theta, above(1), "base of the rotary frequencies"),
           &RotaryOptions::theta),
      rope(choice_option("rope_type", usual.scaling, rotary_scalings(),
                         "method that stretches rotary frequencies over longer texts"),
           &RotaryOptions::scaling),
      rope(number_option("rope_factor", usual.factor, at_least(1), "factor of the stretch"),
           &RotaryOptions::factor),
      rope(integer_option("rope_original_max_position_embeddings", 1, at_least(1),
                          "llama3, yarn: longest text before the stretch"),
           &RotaryOptions::original_positions),
      rope(number_option("rope_low_freq_factor", usual.low_freq_factor, above(0),
                         "llama3: stretches waves longer than the text / this"),
           &RotaryOptions::low_freq_factor),
      rope(number_option("rope_high_freq_factor", usual.high_freq_factor, above(0),
                         "llama3: keeps waves shorter than the text / this"),
           &RotaryOptions::high_freq_factor),
      rope(number_option("rope_attention_factor", 1, above(0), "yarn: factor of cosines and sines"),
           &RotaryOptions::attention_factor),
      rope(number_option("rope_beta_fast", usual.beta_fast, above(0),
                         "yarn: keeps pairs with more turns than this"),
           &RotaryOptions::beta_fast),
      rope(number_option("rope_beta_slow", usual.beta_slow, above(0),
                         "yarn: stretches pairs with fewer turns than this"),
           &RotaryOptions::beta_slow),
      rope(number_option("rope_mscale", 1, at_least(0), "yarn: weight of the factor"),
           &RotaryOptions::mscale),
      rope(number_option("rope_mscale_all_dim", 1, at_least(0),
                         "yarn: weight of the factor's divisor"),
           &RotaryOptions::mscale_all_dim),
      rope(
          boolean_option("rope_truncate", usual.truncate, "yarn: rounds the limits to whole pairs"),
          &RotaryOptions::truncate)};
}

FieldTable<Fields> decoder_fields(const std::string& name) {
  const Fields usual = models::decoder_options(name);
  const ValueRange share = from_below(0, 1);
  std::vector<FieldRow<Fields>> rows = {
      size("vocab_size", usual, &Fields::vocab_size, 1, "size of the vocabulary"),
      size("hidden_size", usual, &Fields::hidden_size, 1, "features"),
      size("intermediate_size", usual, &Fields::intermediate_size, 1, "features of the MLP"),
      size("num_hidden_layers", usual, &Fields::num_hidden_layers, 1, "blocks"),
      size("num_attention_heads", usual, &Fields::num_attention_heads, 1,
           "heads of queries in attention"),
      derived_size("num_key_value_heads", &Fields::num_key_value_heads,
                   "heads of keys and values; must divide the heads of queries"),
      derived_size("head_dim", &Fields::head_dim, "features of a head"),
      size("max_position_embeddings", usual, &Fields::max_position_embeddings, 1,
           "tokens of the longest text"),
      size("sliding_window", usual, &Fields::sliding_window, 0,
           "keys that a query sees, including its own; 0: all up to its own"),
      size("max_window_layers", usual, &Fields::max_window_layers, 0,
           "first block with the window; earlier ones see all keys"),
      field("rms_norm_eps", &Fields::rms_norm_eps, above(0), "of RMSNorm"),
      field("tie_word_embeddings", &Fields::tie_word_embeddings,
            "the head shares the weight of the token embedding"),
      field("attention_dropout", &Fields::attention_dropout, share, "dropout of attention weights"),
      field("initializer_range", &Fields::initializer_range, above(0),
            "standard deviation of initial weights"),
      field(integer_option("document_end", 0, at_least(0), document_end_meaning),
            &Fields::document_end)};
  if (name == "llama" || name == "qwen3")
    rows.push_back({boolean_option("attention_bias", false, "projections of attention have a bias"),
                    [](Fields& fields, const OptionValues& values) {
                      fields.attention_bias = values.get<bool>("attention_bias");
                    }});
  if (name == "llama")
    rows.push_back(field("mlp_bias", &Fields::mlp_bias, "layers of the MLP have a bias"));
  for (auto& row : rope_rows()) rows.push_back(std::move(row));
  return rows;
}

RegistryEntry<Model> decoder(const std::string& name) {
  const auto fields = decoder_fields(name);
  return {name,
          "decoder of a language model, like Hugging Face's " + name,
          fields.options(),
          [=](const OptionValues& values) { return models::decoder(name, fields.read(values)); },
          [=](const OptionValues& values) { models::decoder_options(name, fields.read(values)); },
          "num_hidden_layers"};
}

}  // namespace

std::vector<RegistryEntry<Model>> decoder_entries() {
  std::vector<RegistryEntry<Model>> entries;
  for (const auto& name : models::decoder_names()) entries.push_back(decoder(name));
  return entries;
}

}  // namespace booster
