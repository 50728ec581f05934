#include "mixed_precision/autocast_lists.h"

namespace booster {
namespace {

struct Row {
  Op op;
  OpClass cuda;
  OpClass cpu;
};

constexpr OpClass lower = OpClass::lower_precision, fp32 = OpClass::fp32,
                  fp32_result = OpClass::fp32_result, widest = OpClass::widest,
                  banned = OpClass::banned, untouched = OpClass::untouched;

// Source: torch's autocast registrations, aten/src/ATen/autocast_mode.{h,cpp} of 2.15. Ops that are
// not here run in their inputs' own type promotion on both devices. `square` is torch's pow,
// `cross_entropy` its log_softmax and nll_loss.
constexpr Row rows[] = {
    {Op::matmul, lower, lower},
    {Op::linear, lower, lower},
    {Op::conv2d, lower, lower},
    {Op::attention, lower, lower},
    {Op::exp, fp32, untouched},
    {Op::log, fp32, untouched},
    {Op::pow, fp32, untouched},
    {Op::square, fp32, untouched},
    {Op::reciprocal, fp32, untouched},
    {Op::rsqrt, fp32, untouched},
    {Op::softplus, fp32, untouched},
    {Op::logsumexp, fp32, untouched},
    {Op::layer_norm, fp32, untouched},
    {Op::group_norm, fp32, untouched},
    {Op::softmax, fp32_result, untouched},
    {Op::log_softmax, fp32_result, untouched},
    {Op::sum, fp32_result, untouched},
    {Op::norm, fp32_result, untouched},
    {Op::cross_entropy, fp32, fp32},
    {Op::nll_loss, fp32, fp32},
    {Op::mse_loss, fp32, fp32},
    {Op::l1_loss, fp32, fp32},
    {Op::smooth_l1_loss, fp32, fp32},
    {Op::binary_cross_entropy_with_logits, fp32, fp32},
    {Op::binary_cross_entropy, banned, fp32},
    {Op::cat, untouched, widest},
    {Op::stack, untouched, widest},
};

}  // namespace

OpPolicy torch_autocast_policy(DeviceType device, DType lower_dtype) {
  check(is_16_bit(lower_dtype), "autocast: lower dtype must be f16 or bf16; got {}",
        name_of(lower_dtype));
  OpPolicy policy{.device = device, .lower = lower_dtype};
  policy.name = lower_dtype == DType::f16 ? "fp16" : "bf16";
  for (const Row& row : rows) policy.set(row.op, device == DeviceType::cuda ? row.cuda : row.cpu);
  return policy;
}

}  // namespace booster
