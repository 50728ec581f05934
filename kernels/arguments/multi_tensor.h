// Arguments of the kernels that walk many tensors in one call. Plain data.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels {

// A list of contiguous tensors, each given by pointer, dtype and element count.
struct TensorSpan {
  void* data;
  int64_t size;
  DType dtype;
};
struct MultiTensor {
  const TensorSpan* spans;
  int64_t count;
};

// Rounding of a step's f32 result for a bf16 parameter without a master (formulas in
// update_rounding.h).
enum class UpdateRounding : uint8_t {
  nearest,     // to nearest even: updates below half a unit in the last place are lost
  stochastic,  // up or down at random, exact on average
  kahan,       // to nearest even; keeps the lost part in `compensation` for the next step
};

// One parameter of an optimizer step. `value` is updated (the f32 master if there is one). `copy`,
// if not null, is a 16-bit working copy that is rewritten from the new value.
//
// Unused state is all zero. The `first` step, or the first one that is not skipped, sets the
// momentum buffer instead of blending it (SGD). All memory is contiguous and disjoint, because
// kernels read several elements before they write one. A slot may be a range of a parameter, if
// ranks share an optimizer's work.
struct OptimizerSlot {
  void* value;
  DType value_dtype;
  const void* grad;
  DType grad_dtype;
  void* state1;  // momentum, or first moment; dtype of value (f32 for 16-bit values)
  void* state2;  // second moment
  void* copy;
  DType copy_dtype;
  int64_t size;
  const int64_t* steps;  // on the device: steps taken before this one
  bool first;            // the momentum buffer is new
  UpdateRounding rounding = UpdateRounding::nearest;  // others: value is bf16
  void* compensation = nullptr;                       // bf16, for kahan
  uint64_t noise_seed = 0;  // for stochastic: noise is a function of it, the step and the element
  int64_t begin = 0;        // number of the slot's first element within the parameter
  void* state3 = nullptr;   // RMSprop's third
};
struct OptimizerSlots {
  const OptimizerSlot* slots;
  int64_t count;
};

// Values on the device, which only the device reads, so that the host never waits. Null: absent.
// found_inf != 0: the step changes nothing. The step multiplies gradients by *inverse_scale, then
// by *clip_factor, and does not change the gradient buffers.
struct StepControl {
  const float* found_inf = nullptr;
  const float* inverse_scale = nullptr;
  const double* clip_factor = nullptr;  // f64, since f64 gradients need all its digits
};

// Formulas: torch.optim.SGD. Momentum buffer set to the first gradient, undampened.
struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize;
};

// torch.optim.Adam (decay joins the gradient) and AdamW (decoupled: value *= 1 - lr * decay first).
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled, maximize;
};

// torch.optim.RMSprop: see core/optim/optimizers.h.
struct RmspropStep {
  double lr, alpha, eps, weight_decay, momentum;
  bool maximize;
};

// timm's Lamb: see core/optim/optimizers.h. Every gradient is divided by
// max(1, norm / max_grad_norm).
struct LambStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool grad_averaging, always_adapt, trust_clip, bias_correction, decoupled;
  double max_grad_norm;  // 0: no clipping
};

// The other optimizers of torch.optim that change each element by itself: see
// core/optim/optimizers.h. `rates` are betas, rho, or etas; `bounds` what only one rule has.
enum class ElementRule : uint8_t { adadelta, adagrad, adamax, asgd, nadam, radam, rprop };
struct ElementStep {
  double lr, rates[2], eps, weight_decay, bounds[2];
  bool decoupled, maximize;
};

// The settings of any of these steps. They change from step to step (learning rates). A kernel
// reads them on the device, so replays of a captured step use new ones.
union StepNumbers {
  SgdStep sgd;
  AdamStep adam;
  RmspropStep rmsprop;
  LambStep lamb;
  ElementStep element;
};

}  // namespace booster::kernels
