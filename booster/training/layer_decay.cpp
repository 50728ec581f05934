#include "booster/training/boosted.h"
#include "core/nn/joined_traits.h"

#include "core/nn/module_traits.h"
#include "platform/error.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace booster {
namespace {

bool holds(const std::vector<Tensor>& tensors, const Tensor& x) {
  return std::ranges::any_of(tensors, [&](const Tensor& one) { return one.same_body(x); });
}

std::vector<Tensor> normalisations(const Model& model) {
  std::vector<Tensor> found;
  for (const auto& [name, module] : model->named_modules())
    for (const Role role : {Role::layer_norm, Role::batch_norm})
      for (const auto& [own, tensor] : module->own(role)) found.push_back(tensor);
  return found;
}

// Maps parameters to the links that use them. A parameter without a link belongs to the last layer.
class Layers {
 public:
  explicit Layers(const Model& model) : norms_(normalisations(model)) {
    for (int i = 0; i < model->link_count(); ++i) links_.push_back(model->link(i));
  }
  int last() const { return static_cast<int>(links_.size()) - 1; }
  int of(const Tensor& parameter) const {
    for (int i = 0; i < last(); ++i)
      if (holds(links_[static_cast<size_t>(i)].tensors, parameter)) return i;
    return holds(norms_, parameter) ? std::max(last() - 1, 0) : last();
  }

 private:
  std::vector<Link> links_;
  std::vector<Tensor> norms_;
};

void check_options(const LayerDecayOptions& options) {
  check(options.layer_decay > 0 && options.layer_decay <= 1,
        "layer_decay: out of range; got {}, want more than 0 and at most 1", options.layer_decay);
  check(options.min_scale >= 0 && options.min_scale <= 1,
        "layer_decay: min_scale out of range; got {}, want 0 to 1", options.min_scale);
}

}  // namespace

std::vector<ParameterGroup> layer_decay_groups(const Model& model, LayerDecayOptions options) {
  check_options(options);
  const Layers layers(model);
  std::vector<std::string>& without = options.no_weight_decay;
  for (std::string& name : joined_traits(model.module()).no_weight_decay)
    without.push_back(std::move(name));
  std::vector<ParameterGroup> groups;
  std::map<std::pair<int, bool>, size_t> places;
  for (const auto& parameter : model.parameters()) {
    const int layer = layers.of(parameter.tensor);
    const bool decays =
        parameter.tensor.ndim() > 1 && std::ranges::find(without, parameter.name) == without.end();
    const auto [place, is_new] = places.emplace(std::pair(layer, decays), groups.size());
    if (is_new) {
      const double scale = std::pow(options.layer_decay, layers.last() - layer);
      groups.push_back({{},
                        {{"lr", options.lr * std::max(scale, options.min_scale)},
                         {"weight_decay", decays ? options.weight_decay : 0}}});
    }
    groups[place->second].parameters.push_back(parameter);
  }
  return groups;
}

}  // namespace booster
