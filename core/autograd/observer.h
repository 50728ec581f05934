// An observer of running ops, such as the numerics doctor (booster/numerics), which counts and
// checks the results of a training step. At most one observer is set at a time. It is called on the
// thread that does the work, so it must be thread-safe. Without an observer, each notification
// costs a load and a branch, or shares a branch that exists anyway.
//
// An observer must outlive every op that runs while it is set. It must be complete when it is set,
// because other threads see the setting thread's earlier writes.
#pragma once

#include "core/tensor/tensor.h"

#include <atomic>
#include <span>
#include <string>

namespace booster {

enum class Op : uint8_t;
class Module;
struct OpPolicy;

// One call of `cast`: by a policy or by the program.
struct CastEvent {
  const Tensor& from;
  const Tensor& to;
  int64_t nanoseconds;
  bool converted;  // false: an earlier copy was up to date
};

// A tensor of a training step becomes 8-bit floats: round(from * scale).
struct QuantizeEvent {
  const std::string& tensor;  // "blocks.0.mlp.fc1 (input)"
  const char* format;         // "e4m3"
  const Tensor& from;
  double scale;
  double underflows_to;   // magnitudes of from * scale up to this become 0
  double overflows_from;  // and magnitudes from this on are clipped
  // The magnitude that determined the scale: the largest of an earlier tensor, `age` passes ago. At
  // age 0 it is this tensor's own. 0 means that no magnitude has been recorded yet.
  double amax;
  int64_t age;
};

class OpObserver {
 public:
  virtual ~OpObserver() = default;

  // Called when an op looks up its policy (null: none is active). `given` holds the caller's
  // arguments, `run` the arguments with which the op continues. Both have an undefined tensor for
  // an absent optional argument.
  virtual void op_called(Op, const OpPolicy*, std::span<const Tensor> given,
                         std::span<Tensor* const> run) = 0;
  virtual void was_cast(const CastEvent&) = 0;
  virtual void was_quantized(const QuantizeEvent&) = 0;
  // Called when a differentiable function has returned y; `name` is its name on the tape.
  virtual void op_returned(const char* name, std::span<const Tensor> inputs, const Tensor& y) = 0;
  // Called when a node has turned gradients of its results (g) into gradients of its inputs (d).
  virtual void backward_returned(const char* name, std::span<const Tensor> g,
                                 std::span<const Tensor> d, int64_t nanoseconds) = 0;
  // Called when a gradient arrives at a leaf, before it is added to the leaf's gradient.
  virtual void leaf_receives(const Tensor& leaf, const Tensor& gradient) = 0;
  virtual void module_begins(const Module&) = 0;
  virtual void module_ends(const Module&) = 0;
};

// Null: no observer. Stored with memory_order_release, to match current_observer().
extern std::atomic<OpObserver*> op_observer;

// Hides the thread's ops from the observer until the scope ends, because they are part of a
// formula.
class UnobservedScope {
 public:
  explicit UnobservedScope(bool unobserved);
  ~UnobservedScope();
  UnobservedScope(const UnobservedScope&) = delete;
  UnobservedScope& operator=(const UnobservedScope&) = delete;

 private:
  bool before_;
};
bool is_unobserved();

inline OpObserver* current_observer() {
  OpObserver* observer = op_observer.load(std::memory_order_acquire);
  return observer && is_unobserved() ? nullptr : observer;
}

}  // namespace booster
