#include "core/nn/module_traits.h"

#include "core/nn/joined_traits.h"

#include <algorithm>

namespace booster {

namespace {

bool is_below(const std::string& name, const std::vector<std::string>& modules) {
  return std::ranges::any_of(
      modules, [&](const std::string& one) { return one.empty() || lies_in(name, one); });
}

void append(std::vector<std::string>& names, const std::string& prefix,
            const std::vector<std::string>& added) {
  for (const std::string& name : added) names.push_back(prefix + name);
}

std::string prefix_of(const std::string& module) { return module.empty() ? "" : module + "."; }

// Collects the traits of modules, parents first.
class Joined {
 public:
  explicit Joined(const Module& model) : all_(model.traits()) {
    for (auto* names : {&all_.heads, &all_.position_grids, &all_.no_weight_decay}) names->clear();
    all_.tensor_plan.clear();
    all_.blocks.clear();
  }
  void add(const std::string& name, const ModuleTraits& traits) {
    const std::string prefix = prefix_of(name);
    append(all_.heads, prefix, traits.heads);
    append(all_.position_grids, prefix, traits.position_grids);
    append(all_.no_weight_decay, prefix, traits.no_weight_decay);
    if (!traits.tensor_plan.empty() && !is_below(name, planned_)) {
      planned_.push_back(name);
      for (const auto& [pattern, layer] : traits.tensor_plan)
        all_.tensor_plan.emplace_back(prefix + pattern, layer);
    }
    if (traits.blocks.empty() || is_below(name, with_blocks_)) return;
    with_blocks_.push_back(name);
    all_.blocks = prefix + traits.blocks;
    all_.tokens = traits.tokens;
    all_.token_dimension = traits.token_dimension;
    all_.features = traits.features;
  }
  ModuleTraits result() {
    if (with_blocks_.size() > 1) all_.blocks.clear();
    return std::move(all_);
  }

 private:
  ModuleTraits all_;
  std::vector<std::string> planned_, with_blocks_;  // modules whose traits hold for all below them
};

}  // namespace

FileForm renamed(std::vector<std::pair<std::string, std::string>> names) {
  const auto replaced = [](const NamedTensor& one, const std::string& before,
                           const std::string& after) {
    return NamedTensor{after + one.name.substr(before.size()), one.tensor};
  };
  return {.to_file =
              [=](const NamedTensor& own) {
                for (const auto& [ours, theirs] : names)
                  if (own.name.starts_with(ours)) return replaced(own, ours, theirs);
                return own;
              },
          .from_file =
              [=](const NamedTensor& stored, const StoredShapes&) {
                for (const auto& [ours, theirs] : names)
                  if (stored.name.starts_with(theirs)) return replaced(stored, theirs, ours);
                return stored;
              }};
}

ModuleTraits joined_traits(Module& model) {
  Joined joined(model);
  const bool several = model.traits().several_models;
  for (const auto& [name, module] : model.named_modules()) {
    const ModuleTraits traits = module->traits();
    const bool is_a_model = name.empty() || (several && name.find('.') == name.npos);
    if (is_a_model || !traits.alone_only) joined.add(name, traits);
  }
  return joined.result();
}

FileForms::FileForms(Module& model, const StoredShapes& files) {
  std::vector<std::string> converted;
  for (const auto& [name, module] : model.named_modules()) {
    const FileForm form = module->traits().file_form;
    if (!form.to_file || is_below(name, converted)) continue;
    converted.push_back(name);
    Part part = {prefix_of(name), form, {}};
    for (const auto& [stored, shape] : files)
      if (stored.starts_with(part.prefix))
        part.files.emplace(stored.substr(part.prefix.size()), shape);
    parts_.push_back(std::move(part));
  }
}

NamedTensor FileForms::to_file(const NamedTensor& own) const {
  for (const Part& part : parts_)
    if (own.name.starts_with(part.prefix)) {
      NamedTensor stored = part.form.to_file({own.name.substr(part.prefix.size()), own.tensor});
      stored.name.insert(0, part.prefix);
      return stored;
    }
  return own;
}

NamedTensor FileForms::from_file(const NamedTensor& stored) const {
  for (const Part& part : parts_)
    if (stored.name.starts_with(part.prefix)) {
      NamedTensor own =
          part.form.from_file({stored.name.substr(part.prefix.size()), stored.tensor}, part.files);
      own.name.insert(0, part.prefix);
      return own;
    }
  return stored;
}

}  // namespace booster
