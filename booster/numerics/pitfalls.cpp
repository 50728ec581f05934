// The catalogue of 40 pitfalls: their names, severity and remedies. docs/numerics.md states for
// each where it is detected, or why it cannot happen here.
#include "booster/numerics/findings.h"

namespace booster::numerics {

const std::array<PitfallEntry, 40>& pitfalls() {
  using enum Pitfall;
  constexpr Severity info = Severity::info, warning = Severity::warning, error = Severity::error;
  static constexpr std::array<PitfallEntry, 40> table = {{
      {no_matrix_units, warning, "a GPU without 16-bit or 8-bit units",
       "use a precision that the device multiplies natively, or fp32"},
      {constant_out_of_range, error, "a constant outside the 16-bit range",
       "mask with -inf or the lowest finite number of the dtype; f16 holds at most 65504, and only "
       "0 below 3e-8"},
      {fully_masked_softmax, warning, "softmax of a row that holds only -inf",
       "leave at least one entry of each row unmasked, or run the softmax in f32 and set such rows "
       "to 0"},
      {awkward_sizes, info, "sizes unsuitable for matrix units",
       "make batch, features and channels multiples of 8 (16 for fp8), by padding if need be"},
      {sum_overflow, error, "a large sum overflows in 16 bits",
       "run the reduction in f32, or take the mean of parts"},
      {unlisted_ops, warning, "unlisted ops run in 16 bits",
       "put the op on a list of the strategy if its dtype matters"},
      {in_place_f32_op, error, "an in-place op of the f32 list on a 16-bit tensor",
       "use the op that returns a new tensor"},
      {binary_cross_entropy_in_f16, error, "binary cross entropy of probabilities in f16",
       "use binary_cross_entropy_with_logits"},
      {scale_collapse, error, "the loss scale collapses",
       "lower the learning rate, look for the first non-finite op named here, or train in bf16"},
      {occasional_overflow, info, "an occasional overflow",
       "expected: the scaler searches for the largest scale; a problem only if it skips more than "
       "1 % of the steps"},
      {stale_inf_gradients, error, "gradients still hold inf when backward begins",
       "call zero_grad after every step, skipped or not"},
      {scale_growth_to_inf, warning, "growth to an infinite scale",
       "gradients that stay finite at such a scale are zero: check that the loss depends on the "
       "parameters"},
      {infinite_inverse_scale, error, "a scale whose inverse is infinite",
       "set a larger init_scale or a min_scale; the model has overflowed for many steps"},
      {clipped_while_scaled, warning, "scaled gradients were clipped",
       "clip by the boosted optimizer, which knows the scale"},
      {clipped_unused_gradients, error, "clipping of gradients that the optimizer does not use",
       "clip by the optimizer"},
      {unscaled_twice, error, "unscaled twice", "unscale once between two steps"},
      {f16_gradients, error, "f16 gradients cannot be unscaled",
       "keep f32 parameters, or use a strategy with masters (fp16_naive, fp16_apex O2)"},
      {missing_gradients, error, "parameters without gradients",
       "check that the loss was not detached and that the optimizer has the model's own "
       "parameters"},
      {fused_unscale, error, "a fused optimizer unscales again", "leave the divisor to the step"},
      {lr_moved_on_skip, warning, "the learning rate changed although the step was skipped",
       "call scheduler.step(report) with the report of the optimizer's step"},
      {ranks_disagree, error, "ranks differ in which steps they skip",
       "agree on the verdict before the step"},
      {checkpoint_without_scaler, warning, "a checkpoint without the scaler's state",
       "save and load the boosted objects"},
      {cached_cast_without_history, error, "a cached cast without history loses gradients",
       "open the region's no_grad part before its first use of the weight, or turn the cache off"},
      {stale_cached_cast, warning, "a cached cast of values that changed later",
       "change weights outside the region"},
      {mixed_16_bit_dtypes, error, "mixed 16-bit dtypes in an op that widens",
       "cast the arguments to one dtype"},
      {batch_norm_dtype, error, "batch normalisation with parameters of another dtype",
       "keep normalisations in f32"},
      {exclusive_options, error, "options that exclude one another", "see `booster list NAME`"},
      {average_in_16_bits, warning, "an average of weights in 16 bits",
       "average the f32 masters, in f32"},
      {gradients_changed, warning, "gradients were changed between backward and step",
       "change them before they are clipped or unscaled, or in a gradient hook"},
      {vanishing_gradients, warning, "gradients so small that f16 flushes them to 0",
       "start with a larger loss scale, or train in bf16"},
      {zero_eps, error, "Adam's eps is 0 in f16", "keep optimizer state in f32"},
      {updates_lost, warning, "updates lost to rounding",
       "keep f32 masters, or round stochastically or with Kahan's compensation"},
      {other_thread, warning, "ops on another thread run without the policy",
       "open a PolicyScope on the thread that computes"},
      {awkward_fp8_sizes, error, "sizes that fp8 cannot multiply",
       "make both sizes of the layer multiples of 16, or exclude it by name"},
      {fp8_amax, warning, "an fp8 amax that is tiny, not finite, or too old",
       "use current scaling, a shorter history or a margin"},
      {non_finite_forward, warning, "forward gives values that are not finite",
       "run that op in f32, or train in bf16"},
      {several_defaults, info, "one name, several defaults", "the resolved values are in run.json"},
      {unowned_parameters, warning, "gradients of parameters that no boosted optimizer owns",
       "add all trained parameters to the optimizer"},
      {late_parameters, warning, "parameters made after boost",
       "make all parameters in the constructor"},
      {scaled_loss_overflow, error, "a loss that overflows when it is scaled",
       "reduce the loss to one number in f32 before backward"},
  }};
  return table;
}

}  // namespace booster::numerics
