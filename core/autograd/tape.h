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
#include "core/tensor/tensor.h"

#include <functional>
#include <initializer_list>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

namespace booster {

class Backward;
class Node;  // core/autograd/node.h

// The gradients of the inputs, by position, which a closure fills in.
class Gradients {
 public:
  explicit Gradients(const Node& node);
  // Returns false if the gradient of input i is not needed; then do not compute it.
  bool wanted(int i) const;
  Tensor& operator[](int i) { return values_[i]; }
  // Returns whether the graph is freed after this pass: a formula that computed gradients earlier
  // may then give them away.
  bool is_last_pass() const;

 private:
  friend class Backward;
  friend class GradientSchedule;
  friend class SavedResult;
  const Node& node_;
  const std::unordered_set<const Node*>* ways_ = nullptr;  // the only nodes that need a gradient;
                                                           // null: all
  Backward* pass_ = nullptr;
  std::vector<int> meanwhile_;  // inputs whose gradients are computed while ranks exchange
  std::vector<Tensor> values_;
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

// What the pass must know about a formula; node.h says more.
enum class FormulaKind : uint8_t { once, twice, only_cast, exchange };
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

// What `record` does about a call: nothing, report it to an observer of ops, or also record it.
enum class CallNotice : uint8_t { none, report, record };
CallNotice notice_of(std::span<const Tensor> inputs);
using Formula = std::function<void(std::span<const Tensor> g, Gradients& d)>;
void record_call(CallNotice notice, std::span<Tensor* const> outputs, const char* name,
                 std::span<const Tensor> inputs, FormulaKind kind, Formula formula);

template <class F>
inline constexpr FormulaKind kind_of_formula = FormulaKind::once;
template <class F, FormulaKind kind>
inline constexpr FormulaKind kind_of_formula<MarkedFormula<F, kind>> = kind;

// Records outputs = op(inputs). The formula is `void(std::span<const Tensor> g, Gradients& d)`;
// g[i] is undefined where the i-th result was not used. Undefined inputs (absent optional
// arguments) are allowed and never wanted.
template <class F>
void record_many(std::span<Tensor* const> outputs, const char* name, std::span<const Tensor> inputs,
                 F formula) {
  const CallNotice notice = notice_of(inputs);
  if (notice == CallNotice::none) return;
  record_call(notice, outputs, name, inputs, kind_of_formula<F>,
              notice == CallNotice::record ? Formula(std::move(formula)) : Formula());
}
template <class F>
void record_many(std::initializer_list<Tensor*> outputs, const char* name,
                 std::initializer_list<Tensor> inputs, F formula) {
  record_many(std::span<Tensor* const>(outputs.begin(), outputs.size()), name,
              std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(formula));
}
template <class F>
void record_many(std::vector<Tensor>& outputs, const char* name,
                 std::initializer_list<Tensor> inputs, F formula) {
  std::vector<Tensor*> pointers;
  for (Tensor& output : outputs) pointers.push_back(&output);
  record_many(std::span<Tensor* const>(pointers), name,
              std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(formula));
}

// As above for one result y, which it returns.
// The formula is `void(const Tensor& g, Gradients& d)`.
template <class F>
Tensor record(Tensor y, const char* name, std::span<const Tensor> inputs, F formula) {
  const CallNotice notice = notice_of(inputs);
  if (notice == CallNotice::none) return y;
  Tensor* const output = &y;
  Formula of_one;
  if (notice == CallNotice::record)
    of_one = [formula = std::move(formula)](std::span<const Tensor> g, Gradients& d) mutable {
      formula(g[0], d);
    };
  record_call(notice, {&output, 1}, name, inputs, kind_of_formula<F>, std::move(of_one));
  return y;
}
template <class F>
Tensor record(Tensor y, const char* name, std::initializer_list<Tensor> inputs, F formula) {
  return record(std::move(y), name, std::span<const Tensor>(inputs.begin(), inputs.size()),
                std::move(formula));
}

}  // namespace booster
