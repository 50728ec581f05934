#include "plugins/tensor/tensor_plan.h"

#include "core/nn/layers.h"
#include "platform/error.h"

#include <array>

namespace booster {

namespace {

constexpr std::array<const char*, 4> style_names = {"column", "row", "vocabulary", "shared"};

const TensorPlan vision_transformer = {
    {"blocks.*.attn.qkv", {.style = SplitStyle::column, .groups = 3}},
    {"blocks.*.attn.proj", {.style = SplitStyle::row}},
    {"blocks.*.mlp.fc1", {.style = SplitStyle::column}},
    {"blocks.*.mlp.fc2", {.style = SplitStyle::row}},
    {"head", {.style = SplitStyle::column, .gather = true}},
};

const TensorPlan gpt2 = {
    {"transformer.wte", {.style = SplitStyle::vocabulary}},
    {"transformer.h.*.attn.c_attn", {.style = SplitStyle::column, .groups = 3}},
    {"transformer.h.*.attn.c_proj", {.style = SplitStyle::row}},
    {"transformer.h.*.mlp.c_fc", {.style = SplitStyle::column}},
    {"transformer.h.*.mlp.c_proj", {.style = SplitStyle::row}},
};

// Elementwise functions also work on parts of the features.
bool is_elementwise(const Module& module) {
  for (const char* kind : {"ReLU", "GELU", "Tanh", "Sigmoid", "SiLU", "Dropout", "Identity"})
    if (module.kind() == kind) return true;
  return false;
}

// Pairs linear layers that have only elementwise functions between them.
TensorPlan plan_of_chain(Module& chain) {
  TensorPlan plan;
  std::string first;  // a linear layer without its pair yet
  for (const auto& [name, module] : chain.named_modules()) {
    if (name.empty()) continue;
    if (name.find('.') != name.npos) return {};  // more than a chain
    if (module->kind() != "Linear") {
      if (!is_elementwise(*module)) first.clear();
    } else if (first.empty()) {
      first = name;
    } else {
      plan.push_back({first, {.style = SplitStyle::column}});
      plan.push_back({name, {.style = SplitStyle::row}});
      first.clear();
    }
  }
  return plan;
}

}  // namespace

SplitStyle split_style_named(const std::string& name) {
  for (size_t i = 0; i < style_names.size(); ++i)
    if (name == style_names[i]) return static_cast<SplitStyle>(i);
  fail("tensor_plan: unknown style; got {}{}", name,
       legal_names(name, {style_names.begin(), style_names.end()}));
}

const char* name_of(SplitStyle style) { return style_names[static_cast<size_t>(style)]; }

namespace {
TensorPlan plan_of(Module& model) {
  if (model.kind() == "VisionTransformer") return vision_transformer;
  if (model.kind() == "Gpt2") return gpt2;
  if (model.kind() == "Sequential") return plan_of_chain(model);
  return {};
}
}  // namespace

TensorPlan shipped_tensor_plan(Module& model) {
  if (model.kind() != "SeveralModels") return plan_of(model);
  TensorPlan all;
  for (const auto& [name, module] : model.named_modules()) {
    if (name.empty() || name.find('.') != name.npos) continue;
    for (const auto& [pattern, layer] : plan_of(*module))
      all.push_back({name + "." + pattern, layer});
  }
  return all;
}

}  // namespace booster
