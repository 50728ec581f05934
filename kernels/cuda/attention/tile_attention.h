// Attention and its gradients on the matrix units, for tensors that fits_tiles() accepts. The
// results equal the other kernels' up to rounding. Scores are sums in f32; probabilities and slopes
// of scores are rounded to the tensors' 16 bits before products.
#pragma once

#include "kernels/cuda/attention/choice.h"

namespace booster::kernels::cuda {

void tile_attention(const AttentionTensors& x, double scale, bool causal, double dropout,
                    RandomPosition position);
void tile_attention_backward(const AttentionTensors& x, double scale, bool causal, double dropout,
                             RandomPosition position);

}  // namespace booster::kernels::cuda
