#include "booster/config/options/options.h"
#include "booster/config/builtins.h"
#include "booster/config/decoder_models.h"
#include "booster/config/encoder_models.h"
#include "core/nn/models.h"

namespace booster {

namespace {

using ModelEntry = RegistryEntry<Model>;

template <class Fields>
FieldRow<Fields> num_classes() {
  return field("num_classes", &Fields::num_classes, between(1, 1'000'000), "outputs of the head");
}

// Returns the row of a size that the model's name determines unless it is given.
template <class Fields>
FieldRow<Fields> named_size(const char* option, const Fields& usual,
                            std::optional<int64_t> Fields::*member, const char* description) {
  return {integer_option(option, *(usual.*member), between(1, 1'000'000), description),
          [=](Fields& fields, const OptionValues& values) {
            fields.*member = values.get<int64_t>(option);
          }};
}

FieldRow<models::VitOptions> img_size(const std::string& name) {
  const Size2d usual = *models::vit_options(name).img_size;
  return {integer_option("img_size", usual.height, between(16, 4096),
                         "pixels per side; pixels beyond a multiple of the patch are ignored"),
          [](models::VitOptions& fields, const OptionValues& values) {
            fields.img_size = values.get<int64_t>("img_size");
          }};
}

FieldTable<models::VitOptions> vit_fields(const std::string& name) {
  using Fields = models::VitOptions;
  const Fields usual = models::vit_options(name);
  const ValueRange share = from_below(0, 1);
  return {
      num_classes<Fields>(),
      img_size(name),
      named_size("patch_size", usual, &Fields::patch_size, "pixels per side of a patch"),
      named_size("embed_dim", usual, &Fields::embed_dim, "features"),
      named_size("depth", usual, &Fields::depth, "blocks"),
      named_size("num_heads", usual, &Fields::num_heads,
                 "heads of attention; must divide the features"),
      field("drop_rate", &Fields::drop_rate, share, "dropout before the head"),
      field("pos_drop_rate", &Fields::pos_drop_rate, share, "dropout after the position embedding"),
      field("proj_drop_rate", &Fields::proj_drop_rate, share, "dropout after projections"),
      field("attn_drop_rate", &Fields::attn_drop_rate, share, "dropout of attention weights"),
      field("drop_path_rate", &Fields::drop_path_rate, share,
            "stochastic depth of the last block")};
}

ModelEntry vit(const std::string& name) {
  const auto fields = vit_fields(name);
  return {name,
          "Vision Transformer, as timm's",
          fields.options(),
          [=](const OptionValues& values) { return models::vit(name, fields.read(values)); },
          [=](const OptionValues& values) { models::vit_options(name, fields.read(values)); },
          "depth"};
}

FieldTable<models::Gpt2Options> gpt2_fields(const std::string& name) {
  using Fields = models::Gpt2Options;
  const Fields usual = models::gpt2_options(name);
  const ValueRange share = from_below(0, 1), size = between(1, 1'000'000);
  return {
      field("vocab_size", &Fields::vocab_size, size, "size of the vocabulary"),
      field("n_positions", &Fields::n_positions, size, "tokens of the longest text"),
      named_size("n_embd", usual, &Fields::n_embd, "features"),
      named_size("n_layer", usual, &Fields::n_layer, "blocks"),
      named_size("n_head", usual, &Fields::n_head, "heads of attention; must divide the features"),
      field("embd_pdrop", &Fields::embd_pdrop, share, "dropout of the embeddings' sum"),
      field("attn_pdrop", &Fields::attn_pdrop, share, "dropout of attention weights"),
      field("resid_pdrop", &Fields::resid_pdrop, share, "dropout after projections"),
      field(integer_option("document_end", 0, at_least(0), document_end_meaning),
            &Fields::document_end)};
}

ModelEntry gpt2(const std::string& name) {
  const auto fields = gpt2_fields(name);
  return {name,
          "GPT-2 with a language model's head, like Hugging Face's",
          fields.options(),
          [=](const OptionValues& values) { return models::gpt2(name, fields.read(values)); },
          [=](const OptionValues& values) { models::gpt2_options(name, fields.read(values)); },
          "n_layer"};
}

ModelEntry resnet20() {
  using Fields = models::ResNetOptions;
  const FieldTable<Fields> fields = {
      num_classes<Fields>(),
      field("in_chans", &Fields::in_chans, between(1, 1024), "channels of the images")};
  return {"resnet20", "residual network of 20 layers for small images", fields.options(),
          [=](const OptionValues& values) { return models::resnet20(fields.read(values)); }};
}

ModelEntry mlp() {
  using Fields = models::MlpOptions;
  const FieldTable<Fields> fields = {
      field("bias", &Fields::bias, "layers have a bias"),
      field("flatten", &Fields::flatten, "first flattens samples of several dimensions")};
  OptionTable options = fields.options();
  options.insert(options.begin(),
                 integers_option("sizes", {}, between(1, 1'000'000'000),
                                 "features of each layer, from input to output: two or more"));
  const auto sizes = [](const OptionValues& values) {
    return values.get<std::vector<int64_t>>("sizes");
  };
  return {
      "mlp", "linear layers with ReLU between them", options,
      [=](const OptionValues& values) { return models::mlp(sizes(values), fields.read(values)); },
      [=](const OptionValues& values) { models::check_mlp_sizes(sizes(values)); }};
}

}  // namespace

std::vector<ModelEntry> built_in_models() {
  std::vector<ModelEntry> entries;
  for (const auto& name : models::vit_names()) entries.push_back(vit(name));
  for (const auto& name : models::gpt2_names()) entries.push_back(gpt2(name));
  for (auto& entry : decoder_entries()) entries.push_back(std::move(entry));
  entries.push_back(bert_entry());
  entries.push_back(resnet20());
  entries.push_back(mlp());
  return entries;
}

}  // namespace booster
