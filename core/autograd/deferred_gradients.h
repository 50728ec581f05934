// DeferredGradients: the half of a backward pass that nobody waits for.
//
// Backward through a product computes two things: the gradient of its input, which all layers
// before it wait for, and that of its weight, which nobody needs before the step. A pipeline of
// the zero-bubble kind (Qi et al., 2024) sends the first on and does the second when it would else
// be idle:
//
//   DeferredGradients later;
//   {
//     const DeferredGradients::Scope scope(later, x);
//     backward(y, {.grad = g});     // x.grad() is complete; gradients of weights are not
//   }
//   send(x.grad());
//   later.run();                    // now they are
//
// Put off are the weights and biases of `linear` and `linear_gelu` that are leaves, or casts of
// leaves. What comes out is bit for bit what a pass that puts off nothing gives; a leaf that is
// used several times may get its contributions in another order. What the work needs (the inputs of
// the layers and the gradients of their results) is kept until it is done. For one thread.
#pragma once

#include "core/autograd/tape.h"

#include <functional>
#include <vector>

namespace booster {

class DeferredGradients {
 public:
  // While it lives, backward passes of this thread put such work off into `queue`. The gradient of
  // `needed`, a leaf (may be undefined), is never put off.
  class Scope {
   public:
    Scope(DeferredGradients& queue, const Tensor& needed);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeferredGradients* before_;
  };

  bool empty() const { return items_.empty(); }
  // Does the work in the order in which it was put off. Each gradient arrives at its leaf as by a
  // backward pass of its own: hooks of the leaf run, and those of on_grad_ready.
  void run();

 private:
  friend class Gradients;
  friend class Backward;
  struct Item {
    Edge to;
    const char* op;
    std::function<Tensor()> gradient;
  };
  static DeferredGradients* current();
  bool takes(const Edge& edge) const;

  std::vector<Item> items_;
  Tensor needed_;
};

}  // namespace booster
