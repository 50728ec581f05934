// Writes the ops of traces as ONNX operators. A translation (translations.h) reads its op here and
// sets the values of its results. For one thread.
#pragma once

#include "booster/export/onnx_graph.h"
#include "booster/export/sizes.h"
#include "booster/export/trace.h"

#include <map>
#include <string>
#include <vector>

namespace booster::onnx {

class Translator {
 public:
  using Value = Graph::Value;
  // Translates traces of one model on inputs of several shapes. The graph already has the input.
  Translator(Graph& graph, const std::vector<Trace>& traces, const Value& input);
  // Translates all ops; returns the output. Throws an Error that names the first op without a
  // translation and its module.
  Value translate();
  size_t traces() const { return traces_.size(); }

  // --- the op that is translated
  bool has(size_t input) const { return input < op().inputs.size() && op().inputs[input] >= 0; }
  Kind kind(size_t input) const { return kind_of(traced(op().inputs.at(input)).dtype); }
  Kind result_kind(size_t output = 0) const {
    return kind_of(traced(op().outputs.at(output)).dtype);
  }
  Value input(size_t i) { return value(op().inputs.at(i)); }
  Value input_as(size_t i, Kind kind) { return converted(input(i), this->kind(i), kind); }
  size_t input_count() const { return op().inputs.size(); }
  size_t output_count() const { return op().outputs.size(); }
  int ndim(size_t input) const { return traced(op().inputs.at(input)).shape.ndim(); }
  std::vector<Varying> shape(size_t input) const { return sizes_.shape(op().inputs.at(input)); }
  std::vector<Varying> result_shape(size_t output = 0) const {
    return sizes_.shape(op().outputs.at(output));
  }
  // Returns the size if it is the same in every trace; otherwise throws.
  int64_t fixed_size(size_t input, int dim) const;

  // Return attributes. They throw if the op has none of this name, which is an error of this
  // library.
  bool has_attribute(const char* name) const;
  Varying varying(const char* name) const;
  int64_t integer(const char* name) const;
  double number(const char* name) const;
  std::vector<int64_t> integers(const char* name) const;
  std::string text(const char* name) const;

  void result(const Value& value, size_t output = 0);
  [[noreturn]] void refuse(const std::string& reason) const;

  // --- building blocks
  Value add(const std::string& operation, const std::vector<Value>& inputs,
            const std::vector<protobuf::Message>& attributes = {}) {
    return graph_.add(operation, inputs, attributes);
  }
  Graph& graph() { return graph_; }
  Value converted(const Value& value, Kind from, Kind to);
  // Returns a constant without dimensions.
  Value constant(double number, Kind kind);
  // Returns a constant of these sizes, all elements the same.
  Value filled(double number, const std::vector<int64_t>& sizes);
  // Return a vector of one element, and of several.
  Value size(const Varying& numbers);
  Value sizes(const std::vector<Varying>& numbers);
  // Returns x, whose sizes are `from`, with the sizes `to`.
  Value reshaped(const Value& x, const std::vector<Varying>& from, const std::vector<Varying>& to);

 private:
  const TracedOp& op() const { return traces_[0].ops[current_]; }
  const TracedValue& traced(int value) const { return traces_[0].values[value]; }
  const OpAttribute& attribute_of(const TracedOp& op, const char* name) const;
  Value value(int number);
  Value constant_of(int number);
  std::optional<Value> computed_constant(int number);

  Graph& graph_;
  const std::vector<Trace>& traces_;
  Sizes sizes_;
  std::map<int, Value> values_;
  size_t current_ = 0;
};

}  // namespace booster::onnx
