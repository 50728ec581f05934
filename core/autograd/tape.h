// The tape: makes tensor functions differentiable. backward.h has the calls that run it.
//
// A differentiable function computes its result with kernels, then calls `record` with its inputs
// and a closure. The closure turns the result's gradient into gradients of the inputs. Forward and
// formula are next to each other. To write your own (docs/add-an-op.md):
//
//   Tensor cube(const Tensor& x) {
//     Tensor y = ...;                                  // with NoGradGuard or untracked functions
//     return record(y, "cube", {x}, [x = Saved(x)](const Tensor& g, Gradients& d) {
//       d[0] = ...;                                    // 3 x^2 g
//     });
//   }
//
// A thread records onto its own graph; backward runs on the thread that calls it.
#pragma once

#include "core/autograd/backward.h"
#include "core/autograd/observer.h"
#include "core/tensor/tensor.h"

#include <functional>
#include <initializer_list>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

namespace booster {

class Backward;
class Node;

// The destination of a gradient: the `output`-th result of `node`.
struct Edge {
  Reference<Node> node;
  int output = 0;
};

// The gradients of the inputs, by position, which a closure fills in.
class Gradients {
 public:
  explicit Gradients(const Node& node);
  // Returns false if the gradient of input i is not needed; then do not compute it.
  bool wanted(int i) const;
  Tensor& operator[](int i) { return values_[i]; }

  // --- timing of the work, for the library's own layers. A custom function needs only the two
  // functions above. Computes the gradient of weight input i with `gradient`, which runs off the
  // tape and owns the tensors that it needs. It runs now, later (deferred_gradients.h), or while
  // ranks exchange the layer's other gradients.
  template <class F>
  void compute(int i, F&& gradient) {
    if (puts_off(i))
      put_off(i, std::forward<F>(gradient));
    else if (is_done_meanwhile())
      do_meanwhile(i, std::forward<F>(gradient));
    else
      values_[i] = gradient();
  }
  // Does the same for a function that can save a tensor. gradient(sum) adds to `sum`, the gradient
  // that a leaf already has, and returns an undefined tensor. If `sum` is undefined, or it cannot
  // add, it returns the gradient.
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
  friend class Node;
  friend class Backward;
  friend class SavedResult;
  const Node& node_;
  const std::unordered_set<const Node*>* ways_ = nullptr;  // the only nodes that need a gradient;
                                                           // null: all
  Backward* pass_ = nullptr;
  std::vector<int> meanwhile_;  // inputs whose gradients are computed while ranks exchange
  std::vector<Tensor> values_;
};

// One recorded call.
class Node : public Counted {
 public:
  Node(const char* name, std::initializer_list<Tensor> inputs, int outputs);
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
  // Returns whether `backward` waits for other ranks; it calls Gradients::work_meanwhile first.
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
  // Makes a node with a list of inputs of run-time length.
  Node(const char* name, const std::vector<Tensor>& inputs, int outputs);

 private:
  const char* name_;
  uint64_t sequence_;
  int outputs_;
  std::vector<Edge> inputs_;
  std::vector<std::pair<int, std::function<Tensor(const Tensor&)>>> output_hooks_;
};

// A tensor kept for the backward pass, without its tape so that no cycle forms. `get` throws if the
// tensor has been changed in place since, by its version.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& x);
  Tensor get() const;
  operator Tensor() const { return get(); }

 protected:
  Saved(Tensor kept, uint32_t version) : x_(std::move(kept)), version_(version) {}

 private:
  Tensor x_;
  uint32_t version_ = 0;
};

// The same for an input of the call, with its tape: for formulas that can be differentiated again.
class SavedInput : public Saved {
 public:
  SavedInput() = default;
  explicit SavedInput(const Tensor& x) : Saved(x, x.defined() ? x.version() : 0) {}
};

// The same for the (only) result of the call, which is reattached to the tape while gradients are
// enabled.
class SavedResult {
 public:
  SavedResult() = default;
  explicit SavedResult(const Tensor& y) : y_(y) {}
  Tensor get(const Gradients& d) const;

 private:
  Saved y_;
};

// A formula with a mark for the pass.
enum class FormulaKind : uint8_t { twice, only_cast, exchange };
template <class F, FormulaKind kind>
struct MarkedFormula {
  F formula;
  template <class G>
  void operator()(const G& g, Gradients& d) {
    formula(g, d);
  }
};
// Marks a formula that uses only differentiable functions while gradients are enabled. While they
// are disabled it may use kernels. Its tensors are SavedInputs and SavedResults. See gradients().
template <class F>
MarkedFormula<F, FormulaKind::twice> twice(F formula) {
  return {std::move(formula)};
}
// Marks the formula of a cast, whose gradient is cast back.
template <class F>
MarkedFormula<F, FormulaKind::only_cast> only_cast(F formula) {
  return {std::move(formula)};
}
// Marks a formula that sends its gradient to other ranks: start the message, call
// Gradients::work_meanwhile, wait.
template <class F>
MarkedFormula<F, FormulaKind::exchange> exchange(F formula) {
  return {std::move(formula)};
}

template <class F, FormulaKind kind>
inline constexpr bool formula_is = false;
template <class F, FormulaKind kind>
inline constexpr bool formula_is<MarkedFormula<F, kind>, kind> = true;

// Returns whether this call must be recorded: gradients are enabled and one input requires them.
bool must_record(std::initializer_list<Tensor> inputs);

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

// Returns true if `record` has work to do for this call.
inline bool is_watched(std::initializer_list<Tensor> inputs) {
  return must_record(inputs) || current_observer() || results_are_marked || op_recorder;
}

// Marks outputs as results of the node.
void attach(const Reference<Node>& node, std::span<Tensor* const> outputs);
inline void attach(const Reference<Node>& node, std::initializer_list<Tensor*> outputs) {
  attach(node, std::span<Tensor* const>(outputs.begin(), outputs.size()));
}

[[noreturn]] void graph_was_freed(const char* name);

template <class F, bool many_outputs>
class ClosureNode : public Node {
 public:
  template <class Inputs>
  ClosureNode(const char* name, const Inputs& inputs, int outputs, F&& formula)
      : Node(name, inputs, outputs), formula_(new F(std::forward<F>(formula))) {}
  void backward(std::span<const Tensor> g, Gradients& d) override {
    if (!formula_) graph_was_freed(name());
    if constexpr (many_outputs)
      (*formula_)(g, d);
    else
      (*formula_)(g[0], d);
  }
  bool is_twice_differentiable() const override {
    return formula_is<F, FormulaKind::twice> || only_casts();
  }
  bool only_casts() const override { return formula_is<F, FormulaKind::only_cast>; }
  bool exchanges() const override { return formula_is<F, FormulaKind::exchange>; }
  void release() override { formula_.reset(); }

 private:
  std::unique_ptr<F> formula_;
};

// Records y = op(inputs). The formula is `void(const Tensor& g, Gradients& d)`; undefined inputs
// (absent optional arguments) are allowed and never wanted. Returns y.
template <class F>
Tensor record(Tensor y, const char* name, std::initializer_list<Tensor> inputs, F formula) {
  if (OpObserver* observer = current_observer()) [[unlikely]]
    observer->op_returned(name, {inputs.begin(), inputs.size()}, y);
  if (op_recorder) [[unlikely]] note_result(name, {inputs.begin(), inputs.size()}, {&y, 1});
  if (results_are_marked) [[unlikely]] mark_result(y, {inputs.begin(), inputs.size()});
  if (!must_record(inputs)) return y;
  attach(Reference<Node>(new ClosureNode<F, false>(name, inputs, 1, std::move(formula))), {&y});
  return y;
}

// Does the same for a list of inputs of run-time length.
template <class F>
Tensor record(Tensor y, const char* name, const std::vector<Tensor>& inputs, F formula) {
  if (OpObserver* observer = current_observer()) [[unlikely]]
    observer->op_returned(name, inputs, y);
  if (op_recorder) [[unlikely]] note_result(name, inputs, {&y, 1});
  if (results_are_marked) [[unlikely]] mark_result(y, inputs);
  bool wanted = false;
  for (const Tensor& input : inputs) wanted |= must_record({input});
  if (!wanted) return y;
  attach(Reference<Node>(new ClosureNode<F, false>(name, inputs, 1, std::move(formula))), {&y});
  return y;
}

// Does the same for several results, with a formula `void(std::span<const Tensor> g, Gradients&
// d)`. g[i] is undefined if the i-th result was not used.
template <class F>
void record_many(std::span<Tensor* const> outputs, const char* name,
                 std::initializer_list<Tensor> inputs, F formula) {
  if (OpObserver* observer = current_observer()) [[unlikely]]
    for (const Tensor* y : outputs)
      observer->op_returned(name, {inputs.begin(), inputs.size()}, *y);
  if (op_recorder) [[unlikely]]
    for (const Tensor* y : outputs) note_result(name, {inputs.begin(), inputs.size()}, {y, 1});
  if (results_are_marked) [[unlikely]]
    for (const Tensor* y : outputs) mark_result(*y, {inputs.begin(), inputs.size()});
  if (!must_record(inputs)) return;
  const int n = static_cast<int>(outputs.size());
  attach(Reference<Node>(new ClosureNode<F, true>(name, inputs, n, std::move(formula))), outputs);
}
template <class F>
void record_many(std::initializer_list<Tensor*> outputs, const char* name,
                 std::initializer_list<Tensor> inputs, F formula) {
  record_many(std::span<Tensor* const>(outputs.begin(), outputs.size()), name, inputs,
              std::move(formula));
}
template <class F>
void record_many(std::vector<Tensor>& outputs, const char* name,
                 std::initializer_list<Tensor> inputs, F formula) {
  std::vector<Tensor*> pointers;
  for (Tensor& output : outputs) pointers.push_back(&output);
  record_many(std::span<Tensor* const>(pointers), name, inputs, std::move(formula));
}

}  // namespace booster
