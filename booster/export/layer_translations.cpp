// Products, softmax and normalisations.
#include "booster/export/translations.h"

namespace booster::onnx {
namespace {

using Value = Graph::Value;

void matmul(Translator& t) { t.result(t.add("MatMul", {t.input(0), t.input(1)})); }

void einsum(Translator& t) {
  std::vector<Value> operands;
  for (size_t i = 0; i < t.input_count(); ++i) operands.push_back(t.input(i));
  t.result(t.add("Einsum", operands, {attribute("equation", t.text("equation"))}));
}

// Returns x weight^T + bias. The operator Gemm only takes matrices, so MatMul gets the transposed
// weight. Runtimes fold the transpose once, when they load the graph.
Value linear_of(Translator& t) {
  const Value turned =
      t.add("Transpose", {t.input(1)}, {attribute("perm", std::vector<int64_t>{1, 0})});
  const Value product = t.add("MatMul", {t.input(0), turned});
  return t.has(2) ? t.add("Add", {product, t.input(2)}) : product;
}

void linear(Translator& t) { t.result(linear_of(t)); }

void linear_gelu(Translator& t) { t.result(gelu_of(t, linear_of(t), t.integer("tanh"))); }

// Translates a softmax. A tensor without dimensions counts as a vector of one element.
Translation softmax(const char* operation) {
  return [=](Translator& t) {
    const std::vector<Varying> shape = t.shape(0);
    const std::vector<Varying> one = {Varying(t.traces(), 1)};
    const Value x = shape.empty() ? t.reshaped(t.input(0), shape, one) : t.input(0);
    const Value y = t.add(operation, {x}, {attribute("axis", t.integer("dim"))});
    t.result(shape.empty() ? t.reshaped(y, one, shape) : y);
  };
}

// Returns the argument, or a constant of these sizes where it is absent.
Value argument_or(Translator& t, size_t i, double number, const std::vector<int64_t>& sizes) {
  return t.has(i) ? t.input(i) : t.filled(number, sizes);
}

// Applies scale and shift. `weight` is the place of the scale; the shift follows it.
Value normalized(Translator& t, const Value& x, size_t weight) {
  const int64_t dims = t.integer("dims");
  std::vector<int64_t> sizes;
  for (int dim = t.ndim(0) - static_cast<int>(dims); dim < t.ndim(0); ++dim)
    sizes.push_back(t.fixed_size(0, dim));
  std::vector<Value> inputs = {x, argument_or(t, weight, 1, sizes)};
  if (t.has(weight + 1)) inputs.push_back(t.input(weight + 1));
  return t.add("LayerNormalization", inputs,
               {attribute("axis", -dims), attribute("epsilon", t.number("eps"))});
}

void layer_norm(Translator& t) { t.result(normalized(t, t.input(0), 1)); }

void residual_layer_norm(Translator& t) {
  const Value sum = t.add("Add", {t.input(0), t.input(1)});
  t.result(sum, 0);
  t.result(normalized(t, sum, 2), 1);
}

// x / sqrt(mean of x^2 + eps), times the scale.
void rms_norm(Translator& t) {
  std::vector<int64_t> axes;
  for (int64_t dim = -t.integer("dims"); dim < 0; ++dim) axes.push_back(dim);
  const Value x = t.input(0);
  const Value power = t.add("ReduceMean", {t.add("Mul", {x, x})},
                            {attribute("axes", axes), attribute("keepdims", int64_t{1})});
  const Value root = t.add("Sqrt", {t.add("Add", {power, t.graph().number(t.number("eps"))})});
  const Value y = t.add("Div", {x, root});
  t.result(t.has(1) ? t.add("Mul", {y, t.input(1)}) : y);
}

void batch_norm(Translator& t) {
  if (t.integer("training"))
    t.refuse("it normalises by the batch's own statistics; want running statistics");
  const std::vector<int64_t> channels = {t.fixed_size(0, 1)};
  t.result(t.add("BatchNormalization",
                 {t.input(0), argument_or(t, 1, 1, channels), argument_or(t, 2, 0, channels),
                  t.input(3), t.input(4)},
                 {attribute("epsilon", t.number("eps"))}));
}

// Returns a scale or shift (channels), shaped to broadcast along the channels of x.
Value along_channels(Translator& t, const Value& vector) {
  std::vector<int64_t> sizes(static_cast<size_t>(t.ndim(0) - 1), 1);
  sizes[0] = t.fixed_size(0, 1);
  return t.add("Reshape", {vector, t.graph().integers(sizes)});
}

// Translates, with x as (n, groups, elements of a group): (x - mean) / sqrt(variance + eps), scaled
// by channel.
void group_norm(Translator& t) {
  const std::vector<Varying> shape = t.shape(0);
  const int64_t groups = t.integer("groups");
  Varying each = shape[1];
  for (size_t k = 0; k < each.size(); ++k) {
    each[k] /= groups;
    for (size_t dim = 2; dim < shape.size(); ++dim) each[k] *= shape[dim][k];
  }
  const std::vector<Varying> grouped = {shape[0], Varying(each.size(), groups), each};
  const auto mean_of = [&](const Value& x) {
    return t.add("ReduceMean", {x},
                 {attribute("axes", std::vector<int64_t>{2}), attribute("keepdims", int64_t{1})});
  };
  const Value x = t.reshaped(t.input(0), shape, grouped);
  const Value deviation = t.add("Sub", {x, mean_of(x)});
  const Value variance = mean_of(t.add("Mul", {deviation, deviation}));
  const Value spread = t.add("Sqrt", {t.add("Add", {variance, t.graph().number(t.number("eps"))})});
  Value y = t.reshaped(t.add("Div", {deviation, spread}), grouped, shape);
  if (t.has(1)) y = t.add("Mul", {y, along_channels(t, t.input(1))});
  if (t.has(2)) y = t.add("Add", {y, along_channels(t, t.input(2))});
  t.result(y);
}

}  // namespace

std::vector<TranslationRow> layer_translations() {
  return {
      {"matmul", matmul},
      {"einsum", einsum},
      {"linear", linear},
      {"linear_gelu", linear_gelu},
      {"softmax", softmax("Softmax")},
      {"log_softmax", softmax("LogSoftmax")},
      {"layer_norm", layer_norm},
      {"residual_layer_norm", residual_layer_norm},
      {"rms_norm", rms_norm},
      {"batch_norm", batch_norm},
      {"group_norm", group_norm},
  };
}

}  // namespace booster::onnx
