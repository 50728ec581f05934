// Where a leaf's gradient lies and in which dtype, for plugins and strategies. backward.h has the
// calls of programs, and the thread rules.
#pragma once

#include "core/autograd/backward.h"

#include <functional>

namespace booster {

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

// Returns whether this thread's backward pass is running fn again. Code that counts batches, such
// as running statistics, must skip the second run.
bool is_second_run();

}  // namespace booster
