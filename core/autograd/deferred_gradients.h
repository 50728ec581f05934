// DeferredGradients: the half of a backward pass that nothing waits for.
//
// Backward through a product computes two gradients. All earlier layers wait for the gradient of
// its input; nothing before the step needs the gradient of its weight. A zero-bubble pipeline (Qi
// et al., 2024) sends the first on, and computes the second when it would otherwise be idle:
//
//   DeferredGradients later;
//   {
//     const DeferredGradients::Scope scope(later, x);
//     backward(y, {.grad = g});     // x.grad() is complete; gradients of weights are not
//   }
//   send(x.grad());
//   later.run();                    // now they are
//
// Deferred are the weights and biases of `linear` and `linear_gelu` that are leaves, or casts of
// leaves. The result is bit for bit what a pass without deferral gives, except that a leaf which is
// used several times may get its contributions in another order. The inputs of the layers and the
// gradients of their results are kept until the work is done. For one thread.
#pragma once

#include "core/autograd/node.h"

#include <functional>
#include <vector>

namespace booster {

class DeferredGradients {
 public:
  // While it lives, backward passes of this thread defer such work into `queue`. The gradient of
  // `needed`, a leaf (may be undefined), is never deferred.
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
  // Does the work in the order in which it was deferred. Each gradient reaches its leaf as in a
  // backward pass of its own: the leaf's hooks and its on_grad_ready hooks run.
  void run();

 private:
  friend class GradientSchedule;
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
