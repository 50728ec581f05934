// Convolution and pooling.
#include "booster/export/translations.h"

#include <algorithm>

namespace booster::onnx {
namespace {

using Value = Graph::Value;
using protobuf::Message;
using Sides = std::vector<int64_t>;

// Returns the same border before and after each side.
Sides both_ends(const Sides& padding) { return {padding[0], padding[1], padding[0], padding[1]}; }

std::vector<Message> window_of(Translator& t) {
  return {attribute("kernel_shape", Sides{t.fixed_size(1, 2), t.fixed_size(1, 3)}),
          attribute("strides", t.integers("stride")),
          attribute("pads", both_ends(t.integers("padding"))),
          attribute("dilations", t.integers("dilation")), attribute("group", t.integer("groups"))};
}

std::vector<Value> image_kernel_bias(Translator& t) {
  std::vector<Value> inputs = {t.input(0), t.input(1)};
  if (t.has(2)) inputs.push_back(t.input(2));
  return inputs;
}

void conv2d(Translator& t) { t.result(t.add("Conv", image_kernel_bias(t), window_of(t))); }

void conv_transpose2d(Translator& t) {
  std::vector<Message> attributes = window_of(t);
  attributes.push_back(attribute("output_padding", t.integers("output_padding")));
  t.result(t.add("ConvTranspose", image_kernel_bias(t), attributes));
}

// Returns the border after a side that the last window of ceil_mode needs.
int64_t end_padding(Translator& t, int side) {
  const auto i = static_cast<size_t>(side);
  const int64_t before = t.integers("padding")[i];
  if (!t.integer("ceil_mode")) return before;
  const Varying in = t.shape(0)[i + 2], out = t.result_shape()[i + 2];
  const int64_t reach = t.integers("dilation")[i] * (t.integers("kernel")[i] - 1) + 1;
  Varying needed = out;
  for (size_t k = 0; k < out.size(); ++k)
    needed[k] = (out[k] - 1) * t.integers("stride")[i] + reach - in[k] - before;
  if (!is_constant(needed)) t.refuse("ceil_mode of images of any size");
  return std::max<int64_t>(needed[0], 0);
}

std::vector<Message> pool_of(Translator& t) {
  const Sides padding = t.integers("padding");
  return {attribute("kernel_shape", t.integers("kernel")),
          attribute("strides", t.integers("stride")),
          attribute("pads", Sides{padding[0], padding[1], end_padding(t, 0), end_padding(t, 1)})};
}

void max_pool2d(Translator& t) {
  std::vector<Message> attributes = pool_of(t);
  attributes.push_back(attribute("dilations", t.integers("dilation")));
  t.result(t.add("MaxPool", {t.input(0)}, attributes));
}

void avg_pool2d(Translator& t) {
  if (t.integer("ceil_mode")) t.refuse("ceil_mode of averages, whose divisors differ in ONNX");
  std::vector<Message> attributes = pool_of(t);
  attributes.push_back(attribute("count_include_pad", t.integer("count_padding")));
  t.result(t.add("AveragePool", {t.input(0)}, attributes));
}

// Returns the mean of window i, floor(i in / out) to ceil((i + 1) in / out), as a matrix (out, in).
Value means_of_windows(Translator& t, int64_t in, int64_t out) {
  std::vector<float> shares(static_cast<size_t>(in * out), 0);
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    for (int64_t k = begin; k < end; ++k)
      shares[static_cast<size_t>(i * in + k)] = 1 / static_cast<float>(end - begin);
  }
  return t.graph().constant(from_vector(shares, {out, in}));
}

void adaptive_avg_pool2d(Translator& t) {
  const std::vector<Varying> to = t.result_shape();
  const bool to_one = is_constant(to[2]) && is_constant(to[3]) && to[2][0] == 1 && to[3][0] == 1;
  if (to_one) return t.result(t.add("GlobalAveragePool", {t.input(0)}));
  const Value rows = means_of_windows(t, t.fixed_size(0, 2), to[2][0]);
  const Value columns = means_of_windows(t, t.fixed_size(0, 3), to[3][0]);
  const Value turned =
      t.add("Transpose", {columns}, {attribute("perm", std::vector<int64_t>{1, 0})});
  t.result(t.add("MatMul", {t.add("MatMul", {rows, t.input(0)}), turned}));
}

}  // namespace

std::vector<TranslationRow> image_translations() {
  return {
      {"conv2d", conv2d},
      {"conv_transpose2d", conv_transpose2d},
      {"max_pool2d", max_pool2d},
      {"avg_pool2d", avg_pool2d},
      {"adaptive_avg_pool2d", adaptive_avg_pool2d},
  };
}

}  // namespace booster::onnx
