#include "kernels/cuda/attention/choice.h"

namespace booster::kernels::cuda {
namespace {

constexpr int64_t most_features = 128;
constexpr int64_t most_tokens = int64_t{1} << 30;
// From capability 8.0 on, matrix units multiply bf16, and 16 elements at once. If a build also
// supports an older GPU (-Dgpu_arch), all GPUs use that GPU's code.
constexpr bool has_instructions = BOOSTER_LEAST_GPU_ARCH >= 80;

}  // namespace

bool fits_tiles(const AttentionTensors& x) {
  if (!has_instructions || !is_16_bit(x.q.dtype)) return false;
  const View* const others[] = {&x.k, &x.v, &x.out, &x.g, &x.dq, &x.dk, &x.dv};
  for (const View* each : others)
    if (each->data && each->dtype != x.q.dtype) return false;
  const bool mask_fits =
      !x.mask.data || is_floating(x.mask.dtype) || x.mask.dtype == DType::boolean;
  return mask_fits && x.log_sum.dtype == DType::f32 && x.q.shape[3] <= most_features &&
         x.q.shape[2] <= most_tokens && x.k.shape[2] <= most_tokens;
}

}  // namespace booster::kernels::cuda
