// A tensor's tape state, private to core/autograd.
#pragma once

#include "core/autograd/layer_split.h"
#include "core/autograd/node.h"

namespace booster {

class GradientKeeper;

// A leaf's values in a 16-bit dtype, as of `version` of the leaf.
struct CastCopy {
  Tensor values;
  uint32_t version = 0;
};

struct TapeState : Tracking {
  bool is_leaf() const override { return !node; }
  void record(const Tensor& target, const Tensor& source, const InPlaceCall& call) const override;

  Reference<Node> node;          // the call that produced this tensor; empty for a leaf
  int output = 0;                // index among the call's results
  bool made_by_op = false;       // see mark_result; known only under some policies
  Node* accumulator = nullptr;   // a leaf's entry on the tape while a graph holds it (not owned)
  Tensor grad;
  Tensor grad_buffer;
  bool grad_in_f32 = false;
  const GradientKeeper* keeper = nullptr;  // of this leaf's gradient; see gradient_keeper.h
  bool grad_arrived = false;               // in this pass, and its ready hooks have not run yet
  std::vector<GradHook> grad_hooks;
  std::vector<std::pair<int, std::function<void(const Tensor&)>>> ready_hooks;
  CastCopy cast_copies[2];       // f16, bf16
  std::shared_ptr<const LayerSplit> split;  // a weight's; null if it is whole
};

// Returns the state of x, or null.
TapeState* tape_state(const Tensor& x);
// Returns the state of x, creating it if there is none.
TapeState& ensure_tape_state(const Tensor& x);

// Returns the destination of x's gradient; empty if x does not require one.
Edge edge_of(const Tensor& x);

// Runs a backward pass from a place on the tape; keeps the graph.
void backward_from(const Edge& start, Tensor grad);

// A leaf's node at the end of the tape: adds incoming gradients to the leaf's gradient.
class AccumulateGrad : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  void backward(std::span<const Tensor> g, Gradients& d) override;
  const Tensor* leaf() const override { return &leaf_; }
  void release() override {}

 private:
  Tensor leaf_;
};

// Returns the leaf's gradient for a product kernel to accumulate into directly. Returns undefined
// where that would differ from adding a summand: on the CPU, without a contiguous f32 gradient of
// an f32 leaf, with gradient hooks, or with an observer. After accumulating, call note_added(); the
// pass continues as if the summand had arrived.
Tensor gradient_to_add_to(const Tensor& leaf);
void note_added(const Tensor& leaf);

// Runs the ready hooks of a leaf, once per arrived gradient.
void tell_ready(const Tensor& leaf);
// Returns true if the leaf has ready hooks.
bool awaits_ready(const Tensor& leaf);

// Collects leaves that require gradients from calls that NoGradGuard keeps off the tape, while it
// lives. A checkpoint's second run adds gradients to these leaves.
class LeafWatch {
 public:
  LeafWatch();
  ~LeafWatch();
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;
  // Returns the thread's innermost LeafWatch, or null.
  static LeafWatch* current();
  void note(std::span<const Tensor> arguments);
  const std::vector<Tensor>& leaves() const { return leaves_; }

 private:
  LeafWatch* outer_;
  std::vector<Tensor> leaves_;
};

// Applies the hooks of a tensor to its gradient.
Tensor apply_grad_hooks(std::vector<GradHook> hooks, Tensor grad);

}  // namespace booster
