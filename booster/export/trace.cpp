#include "booster/export/trace.h"

#include "core/autograd/op_policy.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace booster::onnx {
namespace {

class TraceRecorder : public OpRecorder {
 public:
  TraceRecorder(const Model& model, const Tensor& input) {
    for (const auto& [path, module] : model->named_modules()) paths_.emplace(module, path);
    input_ = add(input);
    for (const auto& [name, tensor] : model.state_dict())
      if (!numbers_.contains(tensor.body())) values_[add(tensor)].value.weight = name;
  }

  void op_returned(const OpCall& call) override {
    const auto is_known = [&](const Tensor& y) { return numbers_.contains(y.body()); };
    if (call.by_tape && std::ranges::all_of(call.outputs, is_known)) return;
    TracedOp op{call.name, current_module(), {}, {}, {}};
    op.attributes.assign(call.attributes.begin(), call.attributes.end());
    for (const Tensor& x : call.inputs) op.inputs.push_back(x.defined() ? used(x, op) : -1);
    for (const Tensor& y : call.outputs) op.outputs.push_back(is_known(y) ? number_of(y) : add(y));
    for (const int y : op.outputs) {
      if (std::ranges::count(op.inputs, y) > 0) return;  // returned unchanged
      values_[y].maker = static_cast<int>(ops_.size());
    }
    ops_.push_back(std::move(op));
  }
  // Handles the begin of a module. A module that the model does not own counts as part of its
  // caller.
  void module_begins(const Module& module) override {
    const auto path = paths_.find(&module);
    running_.push_back(path == paths_.end() ? current_module() : path->second);
  }
  void module_ends() override { running_.pop_back(); }

  Trace finished(const Tensor& output) {
    const int result = number_of(output);
    return with_what_it_needs(result);
  }

 private:
  struct Entry {
    Tensor tensor;  // kept alive, so that no other tensor gets its address
    uint32_t version;
    TracedValue value;
    int maker = -1;  // op
  };

  std::string current_module() const { return running_.empty() ? "" : running_.back(); }

  int add(const Tensor& x) {
    const int number = static_cast<int>(values_.size());
    values_.push_back({x, x.version(), {x.shape(), x.dtype(), {}, ""}});
    numbers_.emplace(x.body(), number);
    by_storage_[x.body()->storage.get()].push_back(number);
    return number;
  }

  static bool is_same_view(const TensorBody& a, const TensorBody& b) {
    return a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape &&
           a.strides == b.strides;
  }

  // Returns the number of x's value. A tensor with the same elements, such as a detached one, is
  // the same value.
  int number_of(const Tensor& x) {
    if (const auto found = numbers_.find(x.body()); found != numbers_.end()) return found->second;
    for (const int number : by_storage_[x.body()->storage.get()])
      if (is_same_view(*x.body(), *values_[number].tensor.body())) return number;
    return add(x);
  }

  int used(const Tensor& x, const TracedOp& op) {
    const int number = number_of(x);
    check(x.version() == values_[number].version,
          "onnx: {}: an op changed its argument in place; got it in {}, want functions that return "
          "new tensors",
          op.name, op.module.empty() ? "the model itself" : op.module);
    return number;
  }

  Trace with_what_it_needs(int output) {
    std::vector<bool> is_needed(values_.size()), runs(ops_.size());
    std::vector<int> open = {output};
    while (!open.empty()) {
      const int number = open.back();
      open.pop_back();
      if (number < 0 || is_needed[number]) continue;
      is_needed[number] = true;
      const int maker = values_[number].maker;
      if (maker < 0 || runs[maker]) continue;
      runs[maker] = true;
      const TracedOp& op = ops_[maker];
      open.insert(open.end(), op.inputs.begin(), op.inputs.end());
      open.insert(open.end(), op.outputs.begin(), op.outputs.end());
    }
    is_needed[input_] = true;
    return numbered_anew(is_needed, runs, output);
  }

  Trace numbered_anew(const std::vector<bool>& is_needed, const std::vector<bool>& runs,
                      int output) {
    Trace trace;
    std::vector<int> fresh(values_.size(), -1);
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!is_needed[i]) continue;
      fresh[i] = static_cast<int>(trace.values.size());
      trace.values.push_back(values_[i].value);
      if (values_[i].maker < 0 && static_cast<int>(i) != input_)
        trace.values.back().constant = values_[i].tensor;
    }
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!runs[i]) continue;
      trace.ops.push_back(ops_[i]);
      for (std::vector<int>* numbers : {&trace.ops.back().inputs, &trace.ops.back().outputs})
        for (int& number : *numbers) number = number < 0 ? -1 : fresh[number];
    }
    trace.input = fresh[input_];
    trace.output = fresh[output];
    return trace;
  }

  std::unordered_map<const Module*, std::string> paths_;
  std::vector<std::string> running_;
  std::vector<Entry> values_;
  std::vector<TracedOp> ops_;
  std::unordered_map<const TensorBody*, int> numbers_;
  std::unordered_map<const Storage*, std::vector<int>> by_storage_;
  int input_ = 0;
};

}  // namespace

Trace trace_of(const Model& model, const Tensor& input) {
  const NoGradGuard no_grad;
  const PolicyScope no_policy(nullptr);
  TraceRecorder recorder(model, input);
  const OpRecorderScope recording(&recorder);
  return recorder.finished(model(input));
}

}  // namespace booster::onnx
