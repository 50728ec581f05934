// Modules in sequence, named 0, 1, ..., of which a rank may keep some.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

// Returns what remains of a tensor without its elements: shape (0, ...).
inline Tensor emptied(const Tensor& tensor) {
  Shape none = tensor.shape();
  none[0] = 0;
  return empty(none, {tensor.dtype(), tensor.device()});
}

class Chain : public Module {
 public:
  explicit Chain(const std::vector<Model>& modules)
      : Module("Chain"), last_(static_cast<int>(modules.size())) {
    for (const Model& module : modules) add_existing(std::to_string(size()), module.shared());
  }
  int size() const { return static_cast<int>(children().size()); }

  // From now on runs only modules [first, last) and frees the elements of the others. Their modules
  // remain, so every rank knows each layer by name, and its sizes except the first.
  void keep(int first, int last) {
    first_ = first, last_ = last;
    for (int i = 0; i < size(); ++i)
      if (i < first || i >= last)
        for (const auto& [name, tensor] : part(i).state_dict()) replace_(tensor, emptied(tensor));
  }

 private:
  Module& part(int i) const { return *children()[static_cast<size_t>(i)].second; }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (int i = first_; i < last_; ++i) y = part(i)(y);
    return y;
  }

  int first_ = 0, last_;
};

}  // namespace booster::toys
