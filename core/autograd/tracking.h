// The tape's state of a tensor, private to core/autograd.
#pragma once

#include "core/autograd/tape.h"

namespace booster {

// The numbers of a leaf in a 16-bit dtype, as of `version` of the leaf.
struct CastCopy {
  Tensor values;
  uint32_t version = 0;
};

struct TapeState : Tracking {
  Reference<Node> node;          // the call that produced this tensor; empty for a leaf
  int output = 0;                // which of its results
  bool made_by_op = false;       // see mark_result; known only under some policies
  Node* accumulator = nullptr;   // a leaf's entry on the tape while a graph holds it (not owned)
  Tensor grad;
  Tensor grad_buffer;
  bool grad_in_f32 = false;
  std::vector<GradHook> grad_hooks;
  std::vector<std::pair<int, std::function<void(const Tensor&)>>> ready_hooks;
  CastCopy cast_copies[2];       // f16, bf16
};

// The state of x, or null.
TapeState* tape_state(const Tensor& x);
// The state of x, created if there is none.
TapeState& ensure_tape_state(const Tensor& x);

// Where the gradient of x goes; empty if x does not require one.
Edge edge_of(const Tensor& x);

// The tape's end at a leaf: adds incoming gradients to the leaf's gradient.
class AccumulateGrad : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  void backward(std::span<const Tensor> g, Gradients& d) override;
  void release() override {}

 private:
  Tensor leaf_;
};

// Applies the hooks of a tensor to its gradient.
Tensor apply_grad_hooks(const std::vector<GradHook>& hooks, Tensor grad);

}  // namespace booster
