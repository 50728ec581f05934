// What a bert says about itself, its files, and its input.
#include "core/nn/models/bert.h"

#include <algorithm>
#include <string_view>

namespace booster::models {
namespace {

// Modules of a model that others lack, by the beginnings of their names in files.
struct Parts {
  bool is_base, pooler, cls, classifier;
};

std::string with_end(const std::string& name, std::string_view end, std::string_view other) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()).append(other) : name;
}

// TensorFlow's names of a norm's parameters became PyTorch's.
std::string newer_name(const std::string& stored) {
  return with_end(with_end(stored, "LayerNorm.gamma", "LayerNorm.weight"), "LayerNorm.beta",
                  "LayerNorm.bias");
}

std::string own_name(const std::string& stored, const StoredShapes& all) {
  const std::string name = newer_name(stored);
  if (name == "cls.predictions.decoder.weight") return "bert.embeddings.word_embeddings.weight";
  if (name == "cls.predictions.decoder.bias") return "cls.predictions.bias";
  if (!all.contains("embeddings.word_embeddings.weight")) return name;
  for (const char* part : {"embeddings.", "encoder.", "pooler."})
    if (name.starts_with(part)) return "bert." + name;
  return name;
}

bool is_used(const std::string& name, const Parts& parts) {
  if (name.starts_with("bert.embeddings."))
    return !name.ends_with(".position_ids") && !name.ends_with(".token_type_ids");
  if (name.starts_with("bert.pooler.")) return parts.pooler;
  if (name.starts_with("cls.predictions.")) return parts.cls;
  if (name.starts_with("classifier.")) return parts.classifier;
  return !name.starts_with("cls.seq_relationship.") && !name.starts_with("qa_outputs.");
}

FileForm bert_form(const Parts& parts) {
  const std::string base = "bert.";
  return {.to_file =
              [parts, base](const NamedTensor& own) {
                const bool cut = parts.is_base && own.name.starts_with(base);
                return NamedTensor{cut ? own.name.substr(base.size()) : own.name, own.tensor};
              },
          .from_file =
              [parts](const NamedTensor& stored, const StoredShapes& all) {
                const std::string name = own_name(stored.name, all);
                return NamedTensor{name, is_used(name, parts) ? stored.tensor : Tensor()};
              }};
}

}  // namespace

// "*" stands for dots too, so the last row is also attention's output. A plan of the vocabulary
// also cuts the logits: they share the words' weight.
ModuleTraits Bert::traits() const {
  const LayerPlan column = {.style = SplitStyle::column}, row = {.style = SplitStyle::row};
  TensorPlan plan;
  if (config.num_hidden_layers > 0)
    for (const auto& [layer, style] : {std::pair{"attention.self.query", column},
                                       {"attention.self.key", column},
                                       {"attention.self.value", column},
                                       {"intermediate.dense", column},
                                       {"output.dense", row}})
      plan.push_back({std::string("bert.encoder.layer.*.") + layer, style});
  if (cls_) {
    plan.push_back({"bert.embeddings.word_embeddings", {.style = SplitStyle::vocabulary}});
    plan.push_back({"cls.predictions.bias", {.style = SplitStyle::shared}});
  }
  return {.tensor_plan = std::move(plan),
          .blocks = "bert.encoder.layer.*",
          .token_dimension = 1,
          .features = config.hidden_size,
          .position_free = true,
          .file_form = bert_form({.is_base = config.architecture == "BertModel",
                                  .pooler = bert.pooler != nullptr,
                                  .cls = cls_ != nullptr,
                                  .classifier = classifier_ != nullptr}),
          .heads = {"bert.pooler", "cls", "classifier"}};
}

Tensor bert_input(const std::vector<std::vector<int32_t>>& tokens,
                  const std::vector<std::vector<int32_t>>& types, int32_t pad_token_id) {
  check(!tokens.empty(), "bert_input: no texts");
  check(types.empty() || types.size() == tokens.size(),
        "bert_input: token types of {} texts; want {}", types.size(), tokens.size());
  size_t longest = 1;
  for (const auto& text : tokens) longest = std::max(longest, text.size());
  std::vector<int64_t> planes;
  planes.reserve(tokens.size() * 3 * longest);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t length = tokens[i].size(), padding = longest - length;
    check(types.empty() || types[i].size() == length,
          "bert_input: token types of text {}; got {}, want {}", i,
          types.empty() ? 0 : types[i].size(), length);
    planes.insert(planes.end(), tokens[i].begin(), tokens[i].end());
    planes.insert(planes.end(), padding, pad_token_id);
    if (types.empty())
      planes.insert(planes.end(), length, 0);
    else
      planes.insert(planes.end(), types[i].begin(), types[i].end());
    planes.insert(planes.end(), padding, 0);
    planes.insert(planes.end(), length, 1);
    planes.insert(planes.end(), padding, 0);
  }
  return from_vector(planes,
                     {static_cast<int64_t>(tokens.size()), 3, static_cast<int64_t>(longest)});
}

}  // namespace booster::models
