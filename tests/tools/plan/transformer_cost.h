// The cost of transformers that are too large to be tried here.
#pragma once

#include "tools/plan/model_cost.h"

namespace booster::plan {

// A decoder (GPT) or encoder (ViT), by formulas of the literature (Korthikanti et al., 2022,
// without the term of attention's matrix):
//   forward    2 FLOP per token and parameter of a product, and 4 s^2 h for attention
//   backward   twice that
//   saved      34 s h bytes per block and sample, in 16 bits with flash attention
struct TransformerSizes {
  int64_t layers = 12, features = 768, tokens = 197, heads = 12;
  double block_parameters = 0;  // 0: 12 features^2
  double end_parameters = 0;    // embedding and head
  int bytes = 2;                // of an activation
  std::string dtype = "bf16";
};
inline ModelCost transformer_cost(const TransformerSizes& sizes, int64_t rows,
                                  const BytesPerParameter& bytes) {
  const auto s = static_cast<double>(sizes.tokens), h = static_cast<double>(sizes.features);
  const double stream = static_cast<double>(rows) * s * h;  // elements
  const double tokens = static_cast<double>(rows) * s;
  // Passes of a block's elementwise kernels over the stream in forward; backward has twice as many.
  constexpr double passes = 10, products = 6, others = 8;
  const auto part = [&](double parameters, double attention, double streams) {
    const double gflop = (2 * parameters * tokens + attention) * 1e-9;
    const double gbytes = streams * passes * stream * sizes.bytes * 1e-9;
    const Works forward = {{sizes.dtype, {gflop, 0, products, 0}},
                           {sizes.dtype + " elementwise", {0, gbytes, others, 0}}};
    return PartCost{.parameters = parameters,
                    .cut = parameters,
                    .forward = forward,
                    .backward = forward * 2,
                    .saved_bytes = streams * 17 * stream * sizes.bytes};
  };
  const double own = sizes.block_parameters > 0 ? sizes.block_parameters : 12 * h * h;
  const double all = sizes.end_parameters + static_cast<double>(sizes.layers) * own;
  const double touched = bytes.parameters + bytes.gradients + 2 * (bytes.masters + bytes.optimizer);
  return {.rows = rows,
          .ends = part(sizes.end_parameters, 0, 0.2),
          .block = part(own, 4 * static_cast<double>(rows) * s * s * h, 1),
          .blocks = static_cast<int>(sizes.layers),
          .heads = sizes.heads,
          .tokens = sizes.tokens,
          .stream_bytes = stream * sizes.bytes,
          .workspace_bytes = 8 * stream * sizes.bytes,
          .bytes = bytes,
          .update = {{"f32 elementwise", {0, all * touched * 1e-9, 10, 0}}}};
}

}  // namespace booster::plan
