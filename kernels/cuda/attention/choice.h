// The choice between the kernels that compute attention.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels::cuda {

// The tensors of a call. g, dq, dk and dv are for the backward pass and may be absent.
struct AttentionTensors {
  View q, k, v, out, log_sum, mask;
  View g = {}, dq = {}, dk = {}, dv = {};
};

// Returns true if the matrix units compute it in tiles (tile_attention.h): for f16 and bf16 with
// heads of up to 128 features. All other calls, such as f32, larger heads and an integer mask, use
// products of matrices (attention_forward.cu, attention_backward.cu).
bool fits_tiles(const AttentionTensors& x);

}  // namespace booster::kernels::cuda
