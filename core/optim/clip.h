// Gradient clipping, and its pieces. Norms are taken over all gradients together and accumulate in
// f64, so that finite f32 gradients always have a finite norm. Pieces keep their results on the
// device, where a fused optimizer step reads them; parameters without a gradient are passed over.
// Both clips are errors on gradients of a boosted training, whose optimizer clips by itself.
#pragma once

#include "core/tensor/named_tensor.h"

namespace booster {

// Scales all gradients by min(1, max_norm / (norm + 1e-6)) (torch.nn.utils.clip_grad_norm_) and
// returns the norm before. `power` is any p > 0, infinity for the largest magnitude. A norm that is
// inf or nan is an error with `error_if_nonfinite`, else the gradients become 0 or nan, as in
// PyTorch, and the returned norm tells.
double clip_grad_norm_(const Parameters& parameters, double max_norm, double power = 2,
                       bool error_if_nonfinite = false);

// Clamps every gradient to [-limit, limit]; nan stays nan.
void clip_grad_value_(const Parameters& parameters, double limit);

// --- pieces
// The p-norm of all gradients as one: f64, no dimensions.
Tensor gradient_norm(const std::vector<Tensor>& gradients, double power = 2);
// min(1, max_norm / (norm + 1e-6)) as f64, no dimensions, for kernels::StepControl.
Tensor clip_factor(const Tensor& norm, double max_norm);
// Multiplies every gradient by a factor on the device, f32 or f64.
void scale_gradients(const std::vector<Tensor>& gradients, const Tensor& factor);
// Clamps every gradient to [-limit, limit]; nan stays nan.
void clamp_gradients(const std::vector<Tensor>& gradients, double limit);
// The parameter's gradient, made contiguous first if it is not; undefined where there is none.
Tensor dense_grad(const Tensor& parameter);

}  // namespace booster
