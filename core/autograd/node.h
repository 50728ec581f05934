// Nodes of the tape, for the library's own ops: what `record` (tape.h) makes, when gradients are
// computed, and which observers see ops. Thread rules are as for the tape.
#pragma once

#include "core/autograd/observer.h"
#include "core/autograd/tape.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace booster {

// The destination of a gradient: the `output`-th result of `node`.
struct Edge {
  Reference<Node> node;
  int output = 0;
};

// One recorded call.
class Node : public Counted {
 public:
  Node(const char* name, std::span<const Tensor> inputs, int outputs);
  ~Node() override;
  const char* name() const { return name_; }
  uint64_t sequence() const { return sequence_; }
  const std::vector<Edge>& inputs() const { return inputs_; }
  int outputs() const { return outputs_; }

  // Turns gradients of the outputs (undefined where none arrived) into gradients of the inputs.
  virtual void backward(std::span<const Tensor> g, Gradients& d) = 0;
  // Returns whether `backward` uses only differentiable functions while gradients are enabled.
  virtual bool is_twice_differentiable() const { return false; }
  // Returns true if `backward` only casts.
  virtual bool only_casts() const { return false; }
  // Returns whether `backward` waits for other ranks; it calls
  // GradientSchedule::work_meanwhile first.
  virtual bool exchanges() const { return false; }
  // Releases saved tensors; a later backward raises the freed-graph error.
  virtual void release() = 0;

  // Returns the leaves beyond inputs() that `backward` reaches by a separate pass. Their gradients
  // are complete only after it has run.
  virtual std::span<const Edge> leaves_inside() const { return {}; }
  // Returns the leaf whose gradient this node collects; null for calls.
  virtual const Tensor* leaf() const { return nullptr; }

  // Hooks on the gradients of the outputs (see register_grad_hook).
  void add_output_hook(int output, std::function<Tensor(const Tensor&)> hook);
  void run_output_hooks(std::span<Tensor> g) const;
  bool has_output_hooks() const { return !output_hooks_.empty(); }

 protected:
  // Makes a node without inputs, visited before all other ready nodes: for leaves.
  Node(const char* name, int outputs);

 private:
  const char* name_;
  uint64_t sequence_;
  int outputs_;
  std::vector<Edge> inputs_;
  std::vector<std::pair<int, std::function<Tensor(const Tensor&)>>> output_hooks_;
};

// Decides when a node's gradients are computed: at once, later (deferred_gradients.h), or while
// ranks exchange what the layer sends on.
class GradientSchedule {
 public:
  explicit GradientSchedule(Gradients& gradients) : d_(gradients) {}
  // Computes the gradient of weight input i with `gradient`, which runs off the tape and owns the
  // tensors that it needs.
  template <class F>
  void compute(int i, F&& gradient) {
    if (puts_off(i))
      put_off(i, std::forward<F>(gradient));
    else if (is_done_meanwhile())
      do_meanwhile(i, std::forward<F>(gradient));
    else
      d_[i] = gradient();
  }
  // The same for a function that can save a tensor. gradient(sum) adds to `sum`, the gradient that
  // a leaf already has, and returns an undefined tensor. If `sum` is undefined, or it cannot add,
  // it returns the gradient.
  template <class F>
  void compute_or_add(int i, F&& gradient) {
    compute(i, [place = place_of(i),
                gradient = std::function<Tensor(const Tensor&)>(std::forward<F>(gradient))] {
      return add_at(place, gradient);
    });
  }
  // Does the layer's remaining work between the start of a message and the wait for it. For
  // formulas marked by `exchange`.
  void work_meanwhile();

 private:
  // The destination of a gradient, and its pass; null: a separate pass.
  struct Place {
    Edge edge;
    const Backward* pass;
  };
  Place place_of(int i) const;
  static Tensor add_at(const Place& place, const std::function<Tensor(const Tensor&)>& gradient);
  bool puts_off(int i) const;
  void put_off(int i, std::function<Tensor()> gradient);
  bool is_done_meanwhile() const;
  void do_meanwhile(int i, std::function<Tensor()> gradient);
  Gradients& d_;
};

// Marks the formula of a cast, whose gradient is cast back.
template <class F>
MarkedFormula<F, FormulaKind::only_cast> only_cast(F formula) {
  return {std::move(formula)};
}
// Marks a formula that sends its gradient to other ranks: start the message, call
// GradientSchedule::work_meanwhile, wait.
template <class F>
MarkedFormula<F, FormulaKind::exchange> exchange(F formula) {
  return {std::move(formula)};
}

// Returns whether this call must be recorded: gradients are enabled and one input requires them.
bool must_record(std::span<const Tensor> inputs);
inline bool must_record(std::initializer_list<Tensor> inputs) {
  return must_record(std::span<const Tensor>(inputs.begin(), inputs.size()));
}
// Returns true if `record` has work to do for this call.
inline bool is_watched(std::initializer_list<Tensor> inputs) {
  return notice_of({inputs.begin(), inputs.size()}) != CallNotice::none;
}

// True while the thread's policy needs marks on tensors that are results of ops
// (OpPolicy::asks_who_made).
inline thread_local bool results_are_marked = false;
// Marks y as the result of an op, unless it is a view of an input; a view has its input's mark.
void mark_result(const Tensor& y, std::span<const Tensor> inputs);
void mark_made_by_op(const Tensor& y, bool made);
bool was_made_by_op(const Tensor& x);

class OpRecorder;  // core/autograd/op_recorder.h
// The thread's recorder; null: none.
inline thread_local OpRecorder* op_recorder = nullptr;
// Reports to the recorder, which must exist, that an op returned these results.
void note_result(const char* name, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

// Marks outputs as results of the node.
void attach(const Reference<Node>& node, std::span<Tensor* const> outputs);
inline void attach(const Reference<Node>& node, std::initializer_list<Tensor*> outputs) {
  attach(node, std::span<Tensor* const>(outputs.begin(), outputs.size()));
}

[[noreturn]] void graph_was_freed(const char* name);

}  // namespace booster
