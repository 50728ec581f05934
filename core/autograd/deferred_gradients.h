// DeferredGradients: the half of a backward pass that no other work waits for.
//
// Backward through a product computes two gradients. All earlier layers wait for the gradient of
// its input; nothing before the step needs the gradient of its weight. A zero-bubble pipeline (Qi
// et al., 2024) sends the first gradient on, and computes the second when it would otherwise be
// idle:
//
//   DeferredGradients later;
//   {
//     const DeferredGradients::Scope scope(later, x);
//     backward(y, {.grad = g});     // x.grad() is complete; gradients of weights are not
//   }
//   send(x.grad());
//   later.run();                    // now they are
//
// It defers gradients of weights and biases of `linear` and `linear_gelu` that are leaves or casts
// of leaves. The result is bit-identical to a pass without deferral, except that a leaf with
// several uses may get its contributions in another order. The inputs of the layers and the
// gradients of their results stay in memory until the work is done. For one thread.
#pragma once

#include "core/autograd/node.h"
#include "core/tensor/tensors.h"

#include <functional>
#include <vector>

namespace booster {

class DeferredGradients {
 public:
  // Makes backward passes of this thread defer such work into `queue` while it lives. They never
  // defer the gradients of `needed`, which are leaves (may be empty).
  class Scope {
   public:
    Scope(DeferredGradients& queue, const Tensors& needed);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeferredGradients* before_;
  };

  bool empty() const { return items_.empty(); }
  // Does the deferred work in its order. Each gradient reaches its leaf as in a separate backward
  // pass: the leaf's hooks and its on_grad_ready hooks run.
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
  Tensors needed_;
};

}  // namespace booster
