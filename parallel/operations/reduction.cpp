#include "parallel/operations/reduction.h"

#include "kernels/catalogue.h"
#include "platform/error.h"

namespace booster {

using kernels::BinaryOp;
using kernels::View;

const char* name_of(CollectiveOp reduction) {
  constexpr const char* names[] = {"sum", "mean", "max", "min", "prod"};
  return names[static_cast<int>(reduction)];
}

void check_reduction(CollectiveOp reduction, DType dtype) {
  check(reduction != CollectiveOp::mean || is_floating(dtype),
        "all_reduce: a mean needs a floating dtype; got {}, want one of f32, f64, f16, bf16",
        name_of(dtype));
}

namespace {

View run_of(const void* data, int64_t count, DType dtype) {
  return {
      .data = const_cast<void*>(data), .dtype = dtype, .ndim = 1, .shape = {count}, .strides = {1}};
}

BinaryOp step_of(CollectiveOp reduction) {
  switch (reduction) {
    case CollectiveOp::max: return BinaryOp::maximum;
    case CollectiveOp::min: return BinaryOp::minimum;
    case CollectiveOp::prod: return BinaryOp::mul;
    default: return BinaryOp::add;
  }
}

// Writes `partial` in all steps but the last, which writes `out`. A source that is also `out` thus
// stays intact until it is read.
void reduce_directly(View out, const std::vector<const void*>& sources, View partial,
                     BinaryOp step) {
  const auto& table = kernels::on({});
  View so_far = run_of(sources[0], out.shape[0], out.dtype);
  for (size_t rank = 1; rank < sources.size(); ++rank) {
    const View target = rank + 1 == sources.size() ? out : partial;
    table.binary(step, target, so_far, run_of(sources[rank], out.shape[0], out.dtype));
    so_far = target;
  }
}

void reduce_in_f32(View out, const std::vector<const void*>& sources, View total, View next,
                   CollectiveOp reduction) {
  const auto& table = kernels::on({});
  table.copy(total, run_of(sources[0], out.shape[0], out.dtype));
  for (size_t rank = 1; rank < sources.size(); ++rank) {
    table.copy(next, run_of(sources[rank], out.shape[0], out.dtype));
    table.binary(step_of(reduction), total, total, next);
  }
  if (reduction == CollectiveOp::mean)
    table.binary_scalar(BinaryOp::div, total, total, static_cast<double>(sources.size()), false);
  table.copy(out, total);
}

}  // namespace

void reduce_sources(void* out, const std::vector<const void*>& sources, int64_t count, DType dtype,
                    CollectiveOp reduction, std::vector<std::byte>& scratch) {
  if (count == 0) return;
  const View target = run_of(out, count, dtype);
  // One step on two 16-bit operands already computes in f32 and rounds once.
  const bool one_step = sources.size() == 2 && reduction != CollectiveOp::mean;
  if (is_16_bit(dtype) && !one_step) {
    scratch.resize(static_cast<size_t>(2 * count * size_of(DType::f32)));
    const View total = run_of(scratch.data(), count, DType::f32);
    const View next = run_of(total.as<float>() + count, count, DType::f32);
    return reduce_in_f32(target, sources, total, next, reduction);
  }
  if (sources.size() > 2) scratch.resize(static_cast<size_t>(count * size_of(dtype)));
  reduce_directly(target, sources, run_of(scratch.data(), count, dtype), step_of(reduction));
  if (reduction == CollectiveOp::mean)
    kernels::on({}).binary_scalar(BinaryOp::div, target, target,
                                  static_cast<double>(sources.size()), false);
}

DType partial_dtype(DType dtype) { return is_16_bit(dtype) ? DType::f32 : dtype; }

void reduce_further(void* partial, bool begins, const std::vector<const void*>& sources,
                    int64_t count, DType dtype, CollectiveOp reduction,
                    std::vector<std::byte>& scratch) {
  if (count == 0) return;
  const auto& table = kernels::on({});
  const View total = run_of(partial, count, partial_dtype(dtype));
  if (begins) table.copy(total, run_of(sources[0], count, dtype));
  for (size_t i = begins ? 1 : 0; i < sources.size(); ++i) {
    View next = run_of(sources[i], count, dtype);
    if (total.dtype != dtype) {
      scratch.resize(static_cast<size_t>(count * size_of(total.dtype)));
      const View widened = run_of(scratch.data(), count, total.dtype);
      table.copy(widened, next);
      next = widened;
    }
    table.binary(step_of(reduction), total, total, next);
  }
}

void finish_reduction(void* out, void* partial, int ranks, int64_t count, DType dtype,
                      CollectiveOp reduction) {
  if (count == 0) return;
  const auto& table = kernels::on({});
  const View total = run_of(partial, count, partial_dtype(dtype));
  if (reduction == CollectiveOp::mean)
    table.binary_scalar(BinaryOp::div, total, total, ranks, false);
  table.copy(run_of(out, count, dtype), total);
}

}  // namespace booster
