// A scope in which a model evaluates.
#pragma once

#include "core/nn/module.h"

#include <utility>
#include <vector>

namespace booster {

// Puts a model and its modules into evaluation mode. The destructor restores each mode.
class Evaluation {
 public:
  explicit Evaluation(Module& model) {
    for (auto& [name, module] : model.named_modules())
      modes_.emplace_back(module, module->training());
    model.eval();
  }
  // Restores parents first, so that the modules below them override.
  ~Evaluation() {
    for (const auto& [module, training] : modes_) module->train(training);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace booster
