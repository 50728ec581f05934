// The library requires the first factor transposed and the second in place, both column-major. The
// factors of y^T = b a^T have this form. It multiplies e5m2 with e4m3, in either order, and e4m3
// with itself.
#include "kernels/cuda/products/library_fp8_product.h"

#include "kernels/cuda/products/product_plan.h"
#include "kernels/cuda/runtime/device.h"

#include <optional>

namespace booster::kernels::cuda {
namespace {

cudaDataType code_type(Fp8Format format) {
  return format == Fp8Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

StoredMatrix stored(const Fp8Factor& factor, bool is_transposed) {
  return {.type = code_type(factor.format),
          .is_transposed = is_transposed,
          .rows = static_cast<uint64_t>(factor.depth),
          .columns = static_cast<uint64_t>(factor.sides),
          .leading = factor.depth,
          .batch_stride = 0,
          .alignment = fp8_alignment};
}

std::optional<StoredMatrix> stored_result(const View& y) {
  const int64_t columns = y.columns();
  const bool is_aligned =
      columns * size_of(y.dtype) % fp8_alignment == 0 && alignment_of(y.data) >= fp8_alignment;
  const auto type = type_of(y.dtype);
  if (!type || !is_aligned || y.size() == 0) return {};
  return StoredMatrix{.type = *type,
                      .is_transposed = false,
                      .rows = static_cast<uint64_t>(columns),
                      .columns = static_cast<uint64_t>(y.rows()),
                      .leading = columns,
                      .batch_stride = 0,
                      .alignment = alignment_of(y.data)};
}

// Returns true for an aligned address. This is not documented, but an H100's kernels fail at run
// time with other addresses.
bool allows_scale(const float* scale) {
  return reinterpret_cast<uintptr_t>(scale) % fp8_alignment == 0;
}

ProductPlan* plan_of(const View& y, const Fp8Factor& a, const Fp8Factor& b, const View& bias) {
  const auto result = stored_result(y);
  if (!result || a.depth == 0 || a.depth % fp8_alignment != 0) return nullptr;
  if (!allows_scale(a.inverse_scale) || !allows_scale(b.inverse_scale)) return nullptr;
  if (bias.data && (bias.dtype != y.dtype || !is_16_bit(y.dtype))) return nullptr;
  return plan_for({.device = current_device(),
                   .left = stored(b, true),
                   .right = stored(a, false),
                   .result = *result,
                   .batches = 1,
                   .bias_alignment = bias.data ? alignment_of(bias.data) : 0});
}

}  // namespace

bool has_library_fp8_product(const View& y, const Fp8Factor& a, const Fp8Factor& b,
                             const View& bias) {
  return plan_of(y, a, b, bias) != nullptr;
}

bool library_fp8_product(const View& y, const Fp8Factor& a, const Fp8Factor& b, const View& bias) {
  ProductPlan* plan = plan_of(y, a, b, bias);
  return plan &&
         plan->run({y.data, b.codes, a.codes, bias.data, {b.inverse_scale, a.inverse_scale}}, 0);
}

}  // namespace booster::kernels::cuda
