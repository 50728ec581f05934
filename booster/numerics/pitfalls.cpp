// The catalogue of pitfalls: the names of the 40 rules, their severity and their remedies.
// docs/numerics.md says where each is detected, or why it cannot happen here.
#include "booster/numerics/findings.h"

namespace booster::numerics {

const std::array<Pitfall, 40>& pitfalls() {
  constexpr Severity info = Severity::info, warning = Severity::warning, error = Severity::error;
  static constexpr std::array<Pitfall, 40> table = {{
      {1, warning, "a GPU without 16-bit or 8-bit units",
       "use a precision that the device multiplies natively, or fp32"},
      {2, error, "a constant outside the 16-bit range",
       "mask with -inf or the lowest finite number of the dtype; f16 holds at most 65504, and "
       "nothing but 0 below 3e-8"},
      {3, warning, "a row of nothing but -inf goes into softmax",
       "leave at least one entry of each row unmasked, or run the softmax in f32 and set such rows "
       "to 0"},
      {4, info, "sizes that matrix units do not like",
       "make batch, features and channels multiples of 8 (16 for fp8), by padding if need be"},
      {5, error, "a large sum overflows in 16 bits",
       "run the reduction in f32, or take the mean of parts"},
      {6, warning, "ops on no list run in 16 bits",
       "put the op on a list of the strategy if its dtype matters"},
      {7, error, "an in-place op of the f32 list on a 16-bit tensor",
       "use the op that returns a "
       "new tensor"},
      {8, error, "binary cross entropy of probabilities in f16",
       "use binary_cross_entropy_with_logits"},
      {9, error, "the loss scale collapses",
       "lower the learning rate, look for the first non-finite op named here, or train in bf16"},
      {10, info, "an overflow now and then",
       "expected: the scaler is looking for the largest scale; worry if more than 1 % of the steps "
       "are skipped"},
      {11, error, "gradients still hold inf when backward begins",
       "call zero_grad after every step, skipped or not"},
      {12, warning, "growth to an infinite scale",
       "gradients that stay finite at such a scale are zero: check that the loss depends on the "
       "parameters"},
      {13, error, "a scale whose inverse is infinite",
       "set a larger init_scale or a min_scale; the model has been overflowing for long"},
      {14, warning, "scaled gradients were clipped",
       "clip by the boosted optimizer, which knows the scale"},
      {15, error, "clipping of gradients that the optimizer does not use", "clip by the optimizer"},
      {16, error, "unscaled twice", "unscale once between two steps"},
      {17, error, "f16 gradients cannot be unscaled",
       "keep f32 parameters, or use a strategy with masters (fp16_naive, fp16_apex O2)"},
      {18, error, "parameters without gradients",
       "check that the loss was not detached and that the optimizer was given the model's own "
       "parameters"},
      {19, error, "a fused optimizer unscales again", "leave the divisor to the step"},
      {20, warning, "the learning rate moved although the step was skipped",
       "call scheduler.step(report) with the report of the optimizer's step"},
      {21, error, "ranks disagree about skipping", "agree on the verdict before the step"},
      {22, warning, "a checkpoint without the scaler's state", "save and load the boosted objects"},
      {23, error, "a cached cast without history loses gradients",
       "open the region's no_grad part before its first use of the weight, or turn the cache off"},
      {24, warning, "a cached cast of numbers that changed since",
       "change weights outside the region"},
      {25, error, "mixed 16-bit dtypes in an op that widens", "cast the arguments to one dtype"},
      {26, error, "batch normalisation with parameters of another dtype",
       "keep normalisations in f32"},
      {27, error, "options that exclude one another", "see `booster list NAME`"},
      {28, warning, "an average of weights in 16 bits", "average the f32 masters, in f32"},
      {29, warning, "gradients were changed between backward and step",
       "change them before they are clipped or unscaled, or in a gradient hook"},
      {30, warning, "gradients so small that f16 flushes them to 0",
       "start with a larger loss scale, or train in bf16"},
      {31, error, "Adam's eps is 0 in f16", "keep optimizer state in f32"},
      {32, warning, "updates lost to rounding",
       "keep f32 masters, or round stochastically or with Kahan's compensation"},
      {33, warning, "ops on another thread run without the policy",
       "open a PolicyScope on the thread that computes"},
      {34, error, "sizes that fp8 cannot multiply",
       "make both sizes of the layer multiples of 16, or exclude it by name"},
      {35, warning, "an fp8 amax that is tiny, not finite, or too old",
       "use current scaling, a shorter history or a margin"},
      {36, warning, "forward makes numbers that are not finite",
       "run that op in f32, or train in bf16"},
      {37, info, "one name, several defaults", "the resolved values are in run.json"},
      {38, warning, "gradients of parameters that no boosted optimizer owns",
       "give the optimizer all parameters that train"},
      {39, warning, "parameters made after boost", "make all parameters in the constructor"},
      {40, error, "a loss that overflows when it is scaled",
       "reduce the loss to one number in f32 before backward"},
  }};
  return table;
}

}  // namespace booster::numerics
