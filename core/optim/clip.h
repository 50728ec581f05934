// The pieces of gradient clipping (clip_grad_norm_ and clip_grad_value_ of optimizer.h). They keep
// their results on the device, where a fused optimizer step reads them. They skip parameters
// without a gradient. Thread rules are as for Optimizer.
#pragma once

#include "core/optim/optimizer.h"

namespace booster {

// Returns the p-norm of all gradients as one vector: f64, no dimensions.
Tensor gradient_norm(const std::vector<Tensor>& gradients, double power = 2);
// Returns min(1, max_norm / (norm + 1e-6)) as f64, no dimensions, for kernels::StepControl.
Tensor clip_factor(const Tensor& norm, double max_norm);
// Multiplies every gradient by a factor that is on the device, f32 or f64.
void scale_gradients(const std::vector<Tensor>& gradients, const Tensor& factor);
// Clamps every gradient to [-limit, limit]; nan stays nan.
void clamp_gradients(const std::vector<Tensor>& gradients, double limit);
// Returns the parameter's gradient, made contiguous first if necessary; undefined if it has none.
Tensor dense_grad(const Tensor& parameter);

}  // namespace booster
