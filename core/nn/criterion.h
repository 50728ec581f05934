// Criterion: a loss that a training loop calls, `criterion(output, target)`. A value: copies share
// only the options' tensors. Made by one of the losses below or from any function on Tensor or, for
// models of several outputs or targets, on Tensors.
//
// A criterion that is a mean may state its divisor. Ranks and batches whose divisors differ can
// then be joined into one mean (BoosterOptions::loss_mean).
#pragma once

#include "core/nn/functional.h"
#include "core/tensor/tensors.h"

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace booster {

class Criterion {
 public:
  using Function = std::function<Tensor(const Tensors& output, const Tensors& target)>;

  // Returns the divisor of the mean over a target's rows: the number of counted rows, or the sum of
  // their weights. It is one value without dimensions, off the tape.
  using Divisor = std::function<Tensor(const Tensors& target)>;

  // Makes a criterion. The default of `divisor` is the number of rows, the target's size(0).
  Criterion(std::string name, Function function, Divisor divisor = {})
      : name_(std::move(name)), function_(std::move(function)), divisor_(std::move(divisor)) {}
  // Makes a criterion from a function or lambda: `Criterion loss = [](const Tensor& y, const
  // Tensor& t) {...};`
  template <class F>
  requires(std::is_invocable_r_v<Tensor, F, const Tensor&, const Tensor&> &&
           !std::is_base_of_v<Criterion, std::remove_cvref_t<F>>) Criterion(F function)
      : Criterion("criterion", function_of(std::move(function))) {}

  Tensor operator()(const Tensors& output, const Tensors& target) const {
    return function_(output, target);
  }
  // Returns the divisor in f64. Throws for a criterion that is not a mean.
  Tensor divisor(const Tensors& target) const;
  const std::string& name() const { return name_; }

 private:
  // A generic lambda, on auto, gets Tensor.
  template <class F>
  static Function function_of(F function) {
    if constexpr (!std::is_class_v<F> || requires { &F::operator(); })
      return function;
    else
      return [function = std::move(function)](const Tensors& output, const Tensors& target) {
        return function(output.only(), target.only());
      };
  }

  std::string name_;
  Function function_;
  Divisor divisor_;
};

// The losses of core/nn/functional.h with their options. They have no members, so a Criterion can
// be copied from them.
struct CrossEntropyLoss : Criterion {
  explicit CrossEntropyLoss(CrossEntropyOptions options = {});
  explicit CrossEntropyLoss(NoOptions) : CrossEntropyLoss() {}
};
struct NLLLoss : Criterion {
  explicit NLLLoss(NllOptions options = {});
  explicit NLLLoss(NoOptions) : NLLLoss() {}
};
struct MSELoss : Criterion {
  explicit MSELoss(Reduction reduction = Reduction::mean);
};
struct L1Loss : Criterion {
  explicit L1Loss(Reduction reduction = Reduction::mean);
};
struct SmoothL1Loss : Criterion {
  explicit SmoothL1Loss(double beta = 1, Reduction reduction = Reduction::mean);
};
struct HuberLoss : Criterion {
  explicit HuberLoss(double delta = 1, Reduction reduction = Reduction::mean);
};
struct KLDivLoss : Criterion {
  explicit KLDivLoss(KlDivOptions options = {});
  explicit KLDivLoss(NoOptions) : KLDivLoss() {}
};
struct BCEWithLogitsLoss : Criterion {
  explicit BCEWithLogitsLoss(BinaryCrossEntropyOptions options = {});
  explicit BCEWithLogitsLoss(NoOptions) : BCEWithLogitsLoss() {}
};
struct BCELoss : Criterion {
  explicit BCELoss(BinaryCrossEntropyOptions options = {});
  explicit BCELoss(NoOptions) : BCELoss() {}
};

}  // namespace booster
