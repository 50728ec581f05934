// The backward pass: gradients of a loss, hooks on gradients, and recomputation.
//
//   backward(loss);                          // or loss.backward(): adds to grad() of every leaf
//   auto d = gradients(loss, {x, weight});   // returns them; grad() is unchanged
//
// A pass runs on the thread that calls it, through the graph that this thread recorded (tape.h).
// Hooks run on that thread too. Concurrent passes through distinct graphs are allowed.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <vector>

namespace booster {

struct BackwardOptions {
  Tensor grad = {};            // gradient of the root; needed unless the root has one element
  bool retain_graph = false;   // keep saved tensors for another backward
};
// Adds the gradient of `root` to `grad()` of every leaf that requires it. Throws if the root is not
// on the tape or, without a given gradient, does not have one element. Also throws if the graph was
// freed or a saved tensor has changed.
void backward(const Tensor& root, BackwardOptions options = {});

// The same for several roots in one pass, as torch.autograd.backward; it visits shared parts of
// their graphs once. `gradients` has one per root, undefined or omitted for a root of one element.
struct SeveralBackwardOptions {
  std::vector<Tensor> grads = {};
  bool retain_graph = false;
};
void backward(const std::vector<Tensor>& roots, SeveralBackwardOptions options = {});

struct GradientOptions {
  Tensor grad = {};           // as in BackwardOptions
  bool retain_graph = false;  // keep the graph for another pass; create_graph keeps it too
  bool create_graph = false;  // the gradients are on the tape too: a penalty may use them
};
// Returns the gradient of `root` for each of `inputs` (leaves or results), undefined for an input
// that did not affect it. grad() of leaves does not change, and their hooks do not run. Throws as
// backward does. With create_graph, also throws for a function between root and inputs that cannot
// be differentiated twice.
//
// Twice differentiable are arithmetic, shape functions, reading and writing by index, sorting, sums
// (also running ones), means, norms, matmul, einsum, linear, convolutions, attention, recurrent
// layers, layer and RMS norms, activations, casts and the losses composed of them.
std::vector<Tensor> gradients(const Tensor& root, const std::vector<Tensor>& inputs,
                              GradientOptions options = {});

// --- hooks
// The pass calls it with the gradient of x during backward (for a leaf, before it is accumulated);
// may return another gradient, or an undefined tensor to keep it.
using GradHook = std::function<Tensor(const Tensor& grad)>;
void register_grad_hook(const Tensor& x, GradHook hook);
// Adds a hook that runs once in a backward pass, when the leaf's gradient is complete. This also
// holds if parts of the pass run inside a checkpoint. Data parallelism then sends the gradient.
// Returns a number for remove_grad_ready_hook.
int on_grad_ready(const Tensor& leaf, std::function<void(const Tensor& leaf)> hook);
void remove_grad_ready_hook(const Tensor& leaf, int hook);

// --- recomputation
// Runs fn without recording the ops inside, and keeps only `inputs`. Backward runs fn again, with
// the same random numbers and op policy, and differentiates that run. Trades time for activation
// memory.
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                  const std::vector<Tensor>& inputs);
// The same for several results of any dtypes. A result that is an input is that input itself.
std::vector<Tensor> checkpoint(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
    const std::vector<Tensor>& inputs);

}  // namespace booster
