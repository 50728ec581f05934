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
// (also running ones), means, norms, matmul, einsum, linear, recurrent layers, activations except
// softmax, casts and the losses composed of them.
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
// Gives the leaf's gradient fixed memory, such as a slice of a communication bucket. The first
// gradient of a step is written there, later ones are added.
void set_grad_buffer(const Tensor& leaf, Tensor buffer);
// Keeps the gradient of a 16-bit leaf in f32, so that several passes accumulate in f32. Call it
// before set_grad_buffer.
void keep_grad_in_f32(const Tensor& leaf);
// Returns the dtype of a leaf's gradient: the leaf's own dtype, or f32 as above.
DType grad_dtype(const Tensor& leaf);
// Calls the hook once, when the current backward pass has visited every node.
void on_backward_end(std::function<void()> hook);

// Drops a leaf's gradient; the next one is written, not added.
void clear_grad(const Tensor& leaf);
// Replaces a leaf's gradient by the part that this rank needs: some of its elements in row-major
// order, as one dimension. Until the part is dropped or replaced, a backward pass that reaches the
// leaf throws. Throws for another dtype or device, as set_grad does.
void set_grad_part(const Tensor& leaf, Tensor part);

// Runs fn without recording the ops inside, and keeps only `inputs`. Backward runs fn again, with
// the same random numbers and op policy, and differentiates that run. Trades time for activation
// memory.
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                  const std::vector<Tensor>& inputs);
// Returns whether this thread's backward pass is running fn again. Code that counts batches, such
// as running statistics, must skip the second run.
bool is_second_run();

}  // namespace booster
