// Gradient clipping, and its pieces. Norms are taken over all gradients together and accumulate in
// f64, so that finite f32 gradients always have a finite norm. Pieces keep their results on the
// device, where a fused optimizer step reads them; they skip parameters without a gradient. Both
// clips throw on gradients of a boosted training, whose optimizer clips by itself.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Scales all gradients by min(1, max_norm / (norm + 1e-6)) (torch.nn.utils.clip_grad_norm_) and
// returns the norm before scaling. `power` is any p > 0; infinity gives the largest magnitude. For
// an inf or nan norm it throws if `error_if_nonfinite`. Otherwise the gradients become 0 or nan, as
// in PyTorch, and the returned norm shows it.
double clip_grad_norm_(const Parameters& parameters, double max_norm, double power = 2,
                       bool error_if_nonfinite = false);

// Clamps every gradient to [-limit, limit]; nan stays nan.
void clip_grad_value_(const Parameters& parameters, double limit);

// --- pieces
// The p-norm of all gradients as one vector: f64, no dimensions.
Tensor gradient_norm(const std::vector<Tensor>& gradients, double power = 2);
// min(1, max_norm / (norm + 1e-6)) as f64, no dimensions, for kernels::StepControl.
Tensor clip_factor(const Tensor& norm, double max_norm);
// Multiplies every gradient by a factor that is on the device, f32 or f64.
void scale_gradients(const std::vector<Tensor>& gradients, const Tensor& factor);
// Clamps every gradient to [-limit, limit]; nan stays nan.
void clamp_gradients(const std::vector<Tensor>& gradients, double limit);
// Returns the parameter's gradient, made contiguous first if necessary; undefined if it has none.
Tensor dense_grad(const Tensor& parameter);

}  // namespace booster
