#include "tools/plan/model_cost.h"

namespace booster::plan {

namespace {

template <class Combine>
Works combined(Works a, const Works& b, Combine combine) {
  for (const auto& [kind, work] : b) {
    Work& sum = a[kind];
    sum = {combine(sum.gflop, work.gflop), combine(sum.gbytes, work.gbytes),
           combine(sum.calls, work.calls), combine(sum.seconds, work.seconds)};
  }
  return a;
}

}  // namespace

Works operator*(Works works, double times) {
  works = grown(std::move(works), times);
  for (auto& [kind, work] : works) work.calls *= times;
  return works;
}

Works grown(Works works, double factor) {
  for (auto& [kind, work] : works)
    work = {work.gflop * factor, work.gbytes * factor, work.calls, work.seconds * factor};
  return works;
}

Works operator+(Works a, const Works& b) {
  return combined(std::move(a), b, [](double x, double y) { return x + y; });
}

Works operator-(const Works& a, const Works& b) {
  return combined(a, b, [](double x, double y) { return x - y; });
}

ModelCost transformer_cost(const TransformerSizes& sizes, int64_t rows,
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
