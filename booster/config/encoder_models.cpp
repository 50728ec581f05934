#include "booster/config/encoder_models.h"

#include "booster/config/options/options.h"
#include "core/nn/models/bert.h"

#include <algorithm>
#include <map>

namespace booster {

namespace {

using BertFields = models::BertOptions;

FieldTable<BertFields> bert_fields() {
  const ValueRange share = from_below(0, 1), size = between(1, 1'000'000);
  return {
      field("architecture", &BertFields::architecture, models::bert_architectures(),
            "the encoder with its head"),
      field("vocab_size", &BertFields::vocab_size, size, "tokens that there are"),
      field("hidden_size", &BertFields::hidden_size, size, "features"),
      field("num_hidden_layers", &BertFields::num_hidden_layers, between(0, 1'000'000), "blocks"),
      field("num_attention_heads", &BertFields::num_attention_heads, size,
            "heads of attention; they divide the features"),
      field("intermediate_size", &BertFields::intermediate_size, size, "features of the MLP"),
      field("hidden_act", &BertFields::hidden_act, models::bert_activations(),
            "activation of the MLP"),
      field("hidden_dropout_prob", &BertFields::hidden_dropout_prob, share,
            "dropout of the embeddings' sum and after projections"),
      field("attention_probs_dropout_prob", &BertFields::attention_probs_dropout_prob, share,
            "dropout of attention weights"),
      field(number_option("classifier_dropout", 0, share,
                          "dropout before a classifier; null: hidden_dropout_prob"),
            &BertFields::classifier_dropout),
      field("max_position_embeddings", &BertFields::max_position_embeddings, size,
            "tokens of the longest text"),
      field("type_vocab_size", &BertFields::type_vocab_size, size, "types of tokens"),
      field("initializer_range", &BertFields::initializer_range, above(0),
            "standard deviation of initial weights"),
      field("layer_norm_eps", &BertFields::layer_norm_eps, above(0), "of LayerNorm"),
      field("pad_token_id", &BertFields::pad_token_id, at_least(-1),
            "token whose embedding stays 0; -1: none"),
      field("mask_padding", &BertFields::mask_padding, "attention does not see pad_token_id"),
      field("add_pooling_layer", &BertFields::add_pooling_layer,
            "BertModel returns the pooled first token instead of all features"),
      field(integer_option("num_labels", 2, size,
                           "outputs of a classifier; null: as many as labels in id2label, else 2"),
            &BertFields::num_labels),
      field("id2label", &BertFields::id2label, "names of the labels")};
}

[[noreturn]] void refuse_value(const JsonValue& value, const std::string& file,
                               const std::string& want) {
  fail_data("{}: {}; got {}, want {}", place_of(file, value), value.key, show_value(value), want);
}

// Keys whose one value our bert has built in.
const std::map<std::string, std::string> bert_constants = {
    {"add_cross_attention", "false"},
    {"is_decoder", "false"},
    {"position_embedding_type", "\"absolute\""},
    {"pruned_heads", "{}"},
    {"tie_word_embeddings", "true"}};

JsonValue architecture_of(const JsonValue& list, const std::string& file) {
  const bool is_one = list.kind == JsonKind::array && list.items.size() == 1 &&
                      list.items[0].kind == JsonKind::string;
  const auto known = models::bert_architectures();
  if (!is_one) refuse_value(list, file, "a list of one name, as [\"BertForMaskedLM\"]");
  const auto name = list.items[0].scalar.get<std::string>();
  if (std::ranges::find(known, name) == known.end())
    fail_data("{}: architectures; got {}{}", place_of(file, list.items[0]), name,
              legal_names(name, known));
  JsonValue option = list.items[0];
  option.key = "architecture";
  return option;
}

// {"0": "negative", "1": "positive"} as a list.
JsonValue labels_of(const JsonValue& labels, const std::string& file) {
  JsonValue list = labels;
  list.kind = JsonKind::array;
  list.items.clear();
  for (size_t i = 0; i < labels.items.size(); ++i) {
    const JsonValue* label = labels.find(std::to_string(i));
    if (labels.kind != JsonKind::object || !label)
      refuse_value(labels, file, "an object with the names of labels 0, 1, ...");
    list.items.push_back(*label);
    list.items.back().key.clear();
  }
  return list;
}

nlohmann::ordered_json or_null_json(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

RegistryEntry<Model> bert_entry() {
  const auto fields = bert_fields();
  return {"bert",
          "encoder of texts with a head, as Hugging Face's BERT",
          fields.options(),
          [=](const OptionValues& values) { return models::bert(fields.read(values)); },
          [=](const OptionValues& values) { models::bert_options(fields.read(values)); },
          "num_hidden_layers"};
}

std::optional<JsonValue> bert_option_of(const JsonValue& value, const std::string& file) {
  if (const auto constant = bert_constants.find(value.key); constant != bert_constants.end()) {
    if (value.kind != JsonKind::null && value.to_json().dump() != constant->second)
      refuse_value(value, file, constant->second);
    return JsonValue();
  }
  if (value.key == "label2id") return JsonValue();  // the reverse of id2label
  if (value.kind == JsonKind::null && value.key == "pad_token_id") {
    JsonValue none = value;
    none.kind = JsonKind::integer;
    none.scalar = -1;
    return none;
  }
  if (value.kind == JsonKind::null) return {};
  if (value.key == "architectures") return architecture_of(value, file);
  if (value.key == "id2label") return labels_of(value, file);
  return {};
}

nlohmann::ordered_json config_of(const models::Bert& bert) {
  const models::BertOptions& o = bert.config;
  nlohmann::ordered_json config = {{"architectures", {o.architecture}},
                                   {"model_type", "bert"},
                                   {"vocab_size", o.vocab_size},
                                   {"hidden_size", o.hidden_size},
                                   {"num_hidden_layers", o.num_hidden_layers},
                                   {"num_attention_heads", o.num_attention_heads},
                                   {"intermediate_size", o.intermediate_size},
                                   {"hidden_act", o.hidden_act},
                                   {"hidden_dropout_prob", o.hidden_dropout_prob},
                                   {"attention_probs_dropout_prob", o.attention_probs_dropout_prob},
                                   {"classifier_dropout", or_null_json(o.classifier_dropout)},
                                   {"max_position_embeddings", o.max_position_embeddings},
                                   {"type_vocab_size", o.type_vocab_size},
                                   {"initializer_range", o.initializer_range},
                                   {"layer_norm_eps", o.layer_norm_eps},
                                   {"tie_word_embeddings", true}};
  if (o.pad_token_id < 0)
    config["pad_token_id"] = nullptr;
  else
    config["pad_token_id"] = o.pad_token_id;
  if (o.mask_padding) config["mask_padding"] = true;
  if (o.architecture == "BertModel" && !o.add_pooling_layer) config["add_pooling_layer"] = false;
  if (o.architecture != "BertForSequenceClassification" &&
      o.architecture != "BertForTokenClassification")
    return config;
  for (int64_t i = 0; i < *o.num_labels; ++i) {
    const std::string number = std::to_string(i), name = o.id2label.empty()
                                                             ? "LABEL_" + number
                                                             : o.id2label[static_cast<size_t>(i)];
    config["id2label"][number] = name;
    config["label2id"][name] = i;
  }
  return config;
}

}  // namespace booster
