#include "booster/export/translator.h"

#include "booster/export/translations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace booster::onnx {

using Value = Graph::Value;

namespace {

std::string place(const TracedOp& op) {
  return op.module.empty() ? "in the model itself" : fmt::format("in {}", op.module);
}

bool is_same_call(const TracedOp& a, const TracedOp& b) {
  const auto is_same = [](const OpAttribute& x, const OpAttribute& y) {
    return std::string_view(x.name) == y.name && x.value.index() == y.value.index();
  };
  return a.name == b.name && a.inputs == b.inputs && a.outputs == b.outputs &&
         std::ranges::equal(a.attributes, b.attributes, is_same);
}

void check_same_calls(const Trace& a, const Trace& b) {
  for (size_t i = 0; i < std::min(a.ops.size(), b.ops.size()); ++i)
    check(is_same_call(a.ops[i], b.ops[i]),
          "onnx: the model runs different ops for inputs of different shapes; got {} {} and {} {}",
          a.ops[i].name, place(a.ops[i]), b.ops[i].name, place(b.ops[i]));
  check(a.ops.size() == b.ops.size() && a.output == b.output && a.values.size() == b.values.size(),
        "onnx: the model runs different ops for inputs of different shapes; got {} ops and {}",
        a.ops.size(), b.ops.size());
}

bool has_same_bytes(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = untracked::contiguous(a.detach().to(Device{})),
               y = untracked::contiguous(b.detach().to(Device{}));
  return x.numel() == 0 || std::memcmp(x.data(), y.data(), static_cast<size_t>(x.bytes())) == 0;
}

}  // namespace

Translator::Translator(Graph& graph, const std::vector<Trace>& traces, const Value& input)
    : graph_(graph), traces_(traces), sizes_(graph, traces) {
  for (const Trace& trace : traces) check_same_calls(traces[0], trace);
  values_.emplace(traces[0].input, input);
  sizes_.know(traces[0].input, input);
}

Value Translator::translate() {
  for (current_ = 0; current_ < traces_[0].ops.size(); ++current_) {
    const Translation* translation = translation_of(op().name);
    if (!translation) refuse("no translation to ONNX's operators");
    (*translation)(*this);
  }
  const Trace& first = traces_[0];
  check(first.output == first.input || !first.values[first.output].constant.defined(),
        "onnx: the output does not depend on the input by recorded ops");
  return value(first.output);
}

void Translator::refuse(const std::string& reason) const {
  fail("onnx: {} {}: {}", op().name, place(op()), reason);
}

int64_t Translator::fixed_size(size_t input, int dim) const {
  const Varying size = sizes_.size(op().inputs.at(input), dim);
  if (!is_constant(size)) refuse("a size that must be fixed depends on the input's sizes");
  return size[0];
}

const OpAttribute& Translator::attribute_of(const TracedOp& op, const char* name) const {
  for (const OpAttribute& attribute : op.attributes)
    if (std::string_view(attribute.name) == name) return attribute;
  fail("onnx: {}: no attribute {}", op.name, name);
}

bool Translator::has_attribute(const char* name) const {
  return std::ranges::any_of(op().attributes, [&](const OpAttribute& attribute) {
    return std::string_view(attribute.name) == name;
  });
}

Varying Translator::varying(const char* name) const {
  Varying numbers;
  for (const Trace& trace : traces_)
    numbers.push_back(std::get<int64_t>(attribute_of(trace.ops[current_], name).value));
  return numbers;
}

int64_t Translator::integer(const char* name) const {
  const Varying numbers = varying(name);
  if (!is_constant(numbers)) refuse(fmt::format("{} depends on the input's sizes", name));
  return numbers[0];
}

double Translator::number(const char* name) const {
  const double first = std::get<double>(attribute_of(op(), name).value);
  for (const Trace& trace : traces_) {
    const double other = std::get<double>(attribute_of(trace.ops[current_], name).value);
    if (other != first && !(std::isnan(other) && std::isnan(first)))
      refuse(fmt::format("{} depends on the input's sizes", name));
  }
  return first;
}

std::vector<int64_t> Translator::integers(const char* name) const {
  const auto& first = std::get<std::vector<int64_t>>(attribute_of(op(), name).value);
  for (const Trace& trace : traces_)
    if (std::get<std::vector<int64_t>>(attribute_of(trace.ops[current_], name).value) != first)
      refuse(fmt::format("{} depend on the input's sizes", name));
  return first;
}

std::string Translator::text(const char* name) const {
  return std::get<std::string>(attribute_of(op(), name).value);
}

void Translator::result(const Value& value, size_t output) {
  const int number = op().outputs.at(output);
  values_[number] = value;
  sizes_.know(number, value);
}

Value Translator::converted(const Value& value, Kind from, Kind to) {
  if (from == to) return value;
  return add("Cast", {value}, {attribute("to", element_type(to))});
}

Value Translator::constant(double number, Kind kind) {
  return kind == Kind::integer ? graph_.index(static_cast<int64_t>(number)) : graph_.number(number);
}

Value Translator::filled(double number, const std::vector<int64_t>& sizes) {
  return graph_.constant(full(Shape(sizes), number));
}

Value Translator::size(const Varying& numbers) {
  const std::optional<Value> value = sizes_.find(numbers);
  if (!value) refuse("a size depends on the input's sizes in an unsupported way");
  return *value;
}

Value Translator::sizes(const std::vector<Varying>& numbers) {
  std::vector<int64_t> constants;
  std::vector<Value> parts;
  const auto flush = [&] {
    if (!constants.empty()) parts.push_back(graph_.integers(constants));
    constants.clear();
  };
  for (const Varying& each : numbers) {
    if (is_constant(each)) {
      constants.push_back(each[0]);
      continue;
    }
    flush();
    parts.push_back(size(each));
  }
  flush();
  if (parts.empty()) return graph_.integers({});
  return parts.size() == 1 ? parts[0] : add("Concat", parts, {attribute("axis", int64_t{0})});
}

// Reshapes x. Writes 0 for a size that x has at the same place. Never writes -1, which is undefined
// for an empty batch.
Value Translator::reshaped(const Value& x, const std::vector<Varying>& from,
                           const std::vector<Varying>& to) {
  std::vector<Varying> target = to;
  bool all_stay = true;
  for (size_t i = 0; i < to.size(); ++i) {
    if (is_constant(to[i]) && to[i][0] != 0) continue;
    all_stay &= i < from.size() && from[i] == to[i];
    target[i] = Varying(to[i].size(), 0);
  }
  if (all_stay) return add("Reshape", {x, sizes(target)});
  return add("Reshape", {x, sizes(to)}, {attribute("allowzero", int64_t{1})});
}

Value Translator::value(int number) {
  const auto found = values_.find(number);
  if (found != values_.end()) return found->second;
  const Value made = constant_of(number);
  values_.emplace(number, made);
  return made;
}

// Returns a constant that the pass made: the same in every trace, or a function of sizes.
Value Translator::constant_of(int number) {
  const TracedValue& first = traced(number);
  if (!first.weight.empty()) return graph_.weight(first.weight, first.constant);
  const bool is_same = std::ranges::all_of(traces_, [&](const Trace& trace) {
    return has_same_bytes(trace.values[number].constant, first.constant);
  });
  if (is_same) return graph_.constant(first.constant);
  if (const std::optional<Value> computed = computed_constant(number)) return *computed;
  refuse(
      "an argument depends on the input, but no recorded op made it (values that the model reads, "
      "random numbers, a table for each size)");
}

std::optional<Value> Translator::computed_constant(int number) {
  const Kind kind = kind_of(traced(number).dtype);
  Varying starts, steps, counts;
  double fill = 0;
  bool is_fill = true, is_range = true;
  for (const Trace& trace : traces_) {
    const auto values = trace.values[number].constant.to_vector<double>();
    if (values.empty() || std::abs(values[0]) > 0x1p52) return {};
    if (trace.values.data() == traces_[0].values.data()) fill = values[0];
    const double step = values.size() > 1 ? values[1] - values[0] : 1;
    for (size_t i = 0; i < values.size(); ++i) {
      is_fill &= values[i] == fill;
      is_range &= values[i] == values[0] + step * static_cast<double>(i) &&
                  values[i] == std::floor(values[i]);
    }
    if (!is_range && !is_fill) return {};
    starts.push_back(static_cast<int64_t>(values[0]));
    steps.push_back(static_cast<int64_t>(step));
    counts.push_back(static_cast<int64_t>(values.size()));
  }
  const std::vector<Varying> shape = sizes_.shape(number);
  if (is_fill)
    return add("Expand", {converted(constant(fill, kind == Kind::truth ? Kind::integer : kind),
                                    kind == Kind::truth ? Kind::integer : kind, kind),
                          sizes(shape)});
  if (!is_range || !is_constant(steps)) return {};
  // Computes start + step * (0, 1, ...), because runtimes turn a range into a slice, whose end may
  // not be -1.
  Value range = add("Range", {graph_.index(0), add("Squeeze", {size(counts)}), graph_.index(1)});
  if (steps[0] != 1) range = add("Mul", {range, graph_.index(steps[0])});
  if (!is_constant(starts) || starts[0] != 0) range = add("Add", {range, size(starts)});
  const Value flat = converted(range, Kind::integer, kind);
  return shape.size() == 1 ? flat : reshaped(flat, {counts}, shape);
}

}  // namespace booster::onnx
