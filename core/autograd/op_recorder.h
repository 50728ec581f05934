// Records a forward pass: every op with its inputs, results and attributes, and the modules around
// it. ONNX export (booster/export) translates such a record. An op reports itself once, with
// everything that determines its result:
//
//   if (op_recorder) [[unlikely]] note_op("softmax", {x}, {y}, {{"dim", d}});
//
// An op without attributes, such as exp, leaves the report to `record`. Without a recorder the cost
// is one thread-local read.
#pragma once

#include "core/autograd/node.h"

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace booster {

class Module;

// An argument of an op that is not a tensor. Flags are 0 or 1.
class OpAttribute {
 public:
  using Value = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
  OpAttribute(const char* name, std::integral auto value)
      : name(name), value(static_cast<int64_t>(value)) {}
  OpAttribute(const char* name, Value value) : name(name), value(std::move(value)) {}

  const char* name;
  Value value;
};

struct OpCall {
  const char* name;
  std::span<const Tensor> inputs;  // undefined for an absent optional argument
  std::span<const Tensor> outputs;
  std::span<const OpAttribute> attributes = {};
  bool by_tape = false;  // reported by `record`; the op's own report of the result takes precedence
};

class OpRecorder {
 public:
  virtual ~OpRecorder() = default;
  virtual void op_returned(const OpCall& call) = 0;
  virtual void module_begins(const Module& module) = 0;
  virtual void module_ends() = 0;
};

// Makes `recorder` the calling thread's recorder until the scope ends.
class OpRecorderScope {
 public:
  explicit OpRecorderScope(OpRecorder* recorder) : before_(std::exchange(op_recorder, recorder)) {}
  ~OpRecorderScope() { op_recorder = before_; }
  OpRecorderScope(const OpRecorderScope&) = delete;
  OpRecorderScope& operator=(const OpRecorderScope&) = delete;

 private:
  OpRecorder* before_;
};

// Reports an op to the thread's recorder, which must exist.
void note_op(const char* name, std::initializer_list<Tensor> inputs,
             std::initializer_list<Tensor> outputs,
             std::initializer_list<OpAttribute> attributes = {});
void note_op(const char* name, const std::vector<Tensor>& inputs,
             const std::vector<Tensor>& outputs,
             std::initializer_list<OpAttribute> attributes = {});

}  // namespace booster
