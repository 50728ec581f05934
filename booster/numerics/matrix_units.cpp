#include "booster/numerics/matrix_units.h"

#include "booster/numerics/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace booster::numerics {

namespace {

constexpr int64_t multiple_16_bit = 8, multiple_fp8 = 16;
constexpr int64_t first_layer_channels = 4;  // of images: 3, or 4 if padded

int64_t padded(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

int64_t rows_of(const Tensor& x) { return x.shape().back() > 0 ? x.numel() / x.shape().back() : 0; }

}  // namespace

void MatrixUnits::add(const std::string& layer, ProductSizes sizes, double flop) {
  ProductSizes& row = layers_[layer.empty() ? sizes.op : layer + " (" + sizes.op + ")"];
  const int64_t calls = row.calls;
  const double sum = row.flop;
  row = std::move(sizes);
  row.calls = calls + 1;
  row.flop = sum + flop;
}

void MatrixUnits::see(Op op, const std::string& layer, std::span<Tensor* const> arguments) {
  const auto shape = [&](size_t i) -> const Shape& { return arguments[i]->shape(); };
  if (op == Op::linear && arguments.size() >= 2) {
    const int64_t m = rows_of(*arguments[0]), n = shape(1)[0], k = shape(1)[1];
    add(layer, {"linear", m, n, k}, 2.0 * static_cast<double>(m * n * k));
  } else if (op == Op::matmul && shape(0).ndim() >= 2 && shape(1).ndim() >= 2) {
    const int64_t m = shape(0)[shape(0).ndim() - 2], k = shape(0).back(), n = shape(1).back();
    add(layer, {"matmul", m, n, k}, 2.0 * static_cast<double>(rows_of(*arguments[0]) * n * k));
  } else if (op == Op::attention && arguments.size() == 3 && shape(0).ndim() == 4) {
    const int64_t m = shape(0)[2], k = shape(0)[3], n = shape(1)[2];
    add(layer, {"attention", m, n, k}, 4.0 * static_cast<double>(arguments[0]->numel() * n));
  } else if (op == Op::conv2d && shape(1).ndim() == 4) {
    const Shape& weight = shape(1);
    convolutions_ = true;
    // The output's size is unknown here: counts the input's pixels, as if the stride were 1.
    const int64_t pixels = shape(0)[0] * shape(0)[2] * shape(0)[3];
    add(layer, {"conv2d", pixels, weight[0], weight[1]},
        2.0 * static_cast<double>(pixels * weight.numel()));
  }
}

void MatrixUnits::see_fp8(const std::string& layer, const Tensor& x, const Tensor& weight) {
  const int64_t m = rows_of(x), n = weight.size(0), k = weight.size(1);
  add(layer, {.op = "linear", .m = m, .n = n, .k = k, .calls = 0, .flop = 0, .fp8 = true},
      2.0 * static_cast<double>(m * n * k));
}

void MatrixUnits::add_to(Findings& findings, int64_t step) const {
  double total = 0;
  for (const auto& [name, row] : layers_) total += row.flop;
  for (const auto& [name, row] : layers_) {
    const int64_t multiple = row.fp8 ? multiple_fp8 : multiple_16_bit;
    const bool convolution = row.op == "conv2d";
    std::vector<std::string> wrong;
    double work = 1;  // of the padded product, relative to this one
    const auto look = [&](const char* what, int64_t size) {
      if (size <= 0 || size % multiple == 0) return;
      const int64_t wanted = padded(size, multiple);
      wrong.push_back(fmt::format("{} = {} (want {})", what, size, wanted));
      work *= static_cast<double>(wanted) / static_cast<double>(size);
    };
    if (!convolution) look("M", row.m);
    look(convolution ? "output channels" : "N", row.n);
    const bool first = convolution && row.k <= first_layer_channels;
    if (first && row.k < first_layer_channels)
      wrong.push_back(fmt::format("{} input channels in a first layer (want 4)", row.k));
    else if (!first)
      look(convolution ? "input channels" : "K", row.k);
    if (wrong.empty()) continue;
    const double share = total > 0 ? row.flop / total : 0;
    findings.add(row.fp8 ? Pitfall::awkward_fp8_sizes : Pitfall::awkward_sizes, step, name,
                 fmt::format("{}: not a multiple of {}; padding adds {:.1f} % to the work of this "
                             "layer, which does {:.1f} % of all multiplications",
                             fmt::join(wrong, ", "), multiple, 100 * (work - 1), 100 * share),
                 {{"m", row.m},
                  {"n", row.n},
                  {"k", row.k},
                  {"multiple", multiple},
                  {"padding_work", work - 1},
                  {"flop_share", share}});
  }
  if (convolutions_)
    findings.add(Pitfall::awkward_sizes, step, "layout",
                 "images are NCHW in memory, but matrix units of GPUs read NHWC; the conversion "
                 "costs a pass over each image");
}

}  // namespace booster::numerics
