// Converts a model to 16 bits: its parameters and buffers once, with f32 masters in the optimizer
// for the parameters that it updates. Used by Apex O2 and O3, fp16_naive, Paddle O2 and bf16's cast
// style.
//
//   cast_model(model, optimizer, {.dtype = DType::f16, .keep = is_affine_batch_norm});
//
// Gradients of converted parameters are 16-bit. A step multiplies them by the inverse scale in f32,
// updates the masters and writes the 16-bit weights in the same pass. Masters are part of the
// optimizer's state, so checkpoints and plugins treat them like moments. fp64 uses the same call to
// convert a model to f64. For one thread.
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"

#include <functional>
#include <string>
#include <vector>

namespace booster {

struct ModelCast {
  DType dtype = DType::f16;
  bool masters = true;  // false: the optimizer updates the 16-bit values directly
  // Selects modules whose own parameters and buffers are not converted; empty: none.
  std::function<bool(const std::string& name, const Module& module)> keep = {};
};

// Converts the model in-place: other handles to its tensors see the new dtype, and gradients are
// dropped. A master holds the parameter's value from before the cast. A tensor used by several
// modules is converted unless all of them are kept. Throws unless the dtype is 16-bit or, without
// masters, f64.
void cast_model(const Model& model, const ModelCast& cast);
void cast_model(const Model& model, Optimizer& optimizer, const ModelCast& cast);

// As above, for several models and optimizers, in any combination.
void cast_models(const std::vector<Model>& models, const std::vector<Optimizer>& optimizers,
                 const ModelCast& cast);

// A keep rule: keeps batch normalisation with weight and bias, whose statistics need f32.
bool is_affine_batch_norm(const std::string& name, const Module& module);

// Replaces the gradients of 16-bit parameters by f32 ones with the same values, so that small
// values survive unscaling in memory (unscale_gradients in loss_scaler.h).
void widen_gradients(const Optimizer& optimizer);

}  // namespace booster
