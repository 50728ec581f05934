// The tape's state of a tensor, private to core/autograd.
#pragma once

#include "core/autograd/layer_split.h"
#include "core/autograd/tape.h"

namespace booster {

class GradientKeeper;

// The numbers of a leaf in a 16-bit dtype, as of `version` of the leaf.
struct CastCopy {
  Tensor values;
  uint32_t version = 0;
};

struct TapeState : Tracking {
  bool is_leaf() const override { return !node; }
  void record(const Tensor& target, const Tensor& source, const InPlaceCall& call) const override;

  Reference<Node> node;          // the call that produced this tensor; empty for a leaf
  int output = 0;                // which of its results
  bool made_by_op = false;       // see mark_result; known only under some policies
  Node* accumulator = nullptr;   // a leaf's entry on the tape while a graph holds it (not owned)
  Tensor grad;
  Tensor grad_buffer;
  bool grad_in_f32 = false;
  const GradientKeeper* keeper = nullptr;  // of a leaf's gradient; see gradient_keeper.h
  bool grad_arrived = false;     // in this pass; its ready hooks have not run yet
  std::vector<GradHook> grad_hooks;
  std::vector<std::pair<int, std::function<void(const Tensor&)>>> ready_hooks;
  CastCopy cast_copies[2];       // f16, bf16
  std::shared_ptr<const LayerSplit> split;  // of a weight; null: it is whole
};

// The state of x, or null.
TapeState* tape_state(const Tensor& x);
// The state of x, created if there is none.
TapeState& ensure_tape_state(const Tensor& x);

// Where the gradient of x goes; empty if x does not require one.
Edge edge_of(const Tensor& x);

// A backward pass from a place on the tape; keeps the graph.
void backward_from(const Edge& start, Tensor grad);

// The tape's end at a leaf: adds incoming gradients to the leaf's gradient.
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

// The gradient of a leaf, for a product that adds to it rather than giving a summand; undefined
// where that would not be the same: where there is none yet, where somebody looks at summands, in
// another dtype than f32. Then note_added, after which the pass goes on as if the summand had come.
Tensor gradient_to_add_to(const Tensor& leaf);
void note_added(const Tensor& leaf);

// Runs the ready hooks of a leaf whose gradient has arrived, once.
void tell_ready(const Tensor& leaf);
// Whether it has such hooks.
bool awaits_ready(const Tensor& leaf);

// Notes the leaves that require gradients among the arguments of the calls that NoGradGuard keeps
// off the tape, as long as it lives: those that a checkpoint's second run will put gradients into.
class LeafWatch {
 public:
  LeafWatch();
  ~LeafWatch();
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;
  // The thread's innermost, or null.
  static LeafWatch* current();
  void note(std::initializer_list<Tensor> arguments);
  const std::vector<Tensor>& leaves() const { return leaves_; }

 private:
  LeafWatch* outer_;
  std::vector<Tensor> leaves_;
};

// Applies the hooks of a tensor to its gradient.
Tensor apply_grad_hooks(std::vector<GradHook> hooks, Tensor grad);

}  // namespace booster
