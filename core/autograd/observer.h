// Who looks on while ops run: a numerics doctor (booster/numerics) that counts, checks and names
// what happens in a training step. At most one observer is set at a time; it is called on the
// thread that does the work, so it must expect several. Without one, each place that would tell it
// something costs a relaxed load and a branch, or shares a branch that is there anyway.
//
// An observer must outlive every op that runs while it is set.
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
  bool converted;  // false: a copy made earlier was up to date
};

// A tensor of a training step becomes 8-bit floats: round(from * scale).
struct QuantizeEvent {
  const std::string& tensor;  // "blocks.0.mlp.fc1 (input)"
  const char* format;         // "e4m3"
  const Tensor& from;
  double scale;
  double underflows_to;   // magnitudes of from * scale up to here become 0
  double overflows_from;  // and from here on are cut off
  // What the scale was made from: the largest magnitude of an earlier tensor, `age` of its passes
  // ago. Of age 0 it is this tensor's own; a magnitude of 0: none was seen yet.
  double amax;
  int64_t age;
};

class OpObserver {
 public:
  virtual ~OpObserver() = default;

  // An op asks its policy (null: none is in force). `given` is what the caller passed, `run` what
  // the op goes on with; both have an undefined tensor where an optional argument is absent.
  virtual void op_called(Op, const OpPolicy*, std::span<const Tensor> given,
                         std::span<Tensor* const> run) = 0;
  virtual void was_cast(const CastEvent&) = 0;
  virtual void was_quantized(const QuantizeEvent&) = 0;
  // A differentiable function gave y; `name` is its name on the tape.
  virtual void op_returned(const char* name, std::span<const Tensor> inputs, const Tensor& y) = 0;
  // A call on the tape turned gradients of its results (g) into those of its inputs (d).
  virtual void backward_returned(const char* name, std::span<const Tensor> g,
                                 std::span<const Tensor> d, int64_t nanoseconds) = 0;
  // A gradient arrives at a leaf; it is not yet added to what the leaf has.
  virtual void leaf_receives(const Tensor& leaf, const Tensor& gradient) = 0;
  virtual void module_begins(const Module&) = 0;
  virtual void module_ends(const Module&) = 0;
};

extern std::atomic<OpObserver*> op_observer;  // null: nobody looks on

// The thread's ops are not told to the observer until the scope ends: they are a formula's own.
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
  OpObserver* observer = op_observer.load(std::memory_order_relaxed);
  return observer && is_unobserved() ? nullptr : observer;
}

}  // namespace booster
