// Apex amp's optimisation levels: the properties that the user's options give.
//
//   resolve({.opt_level = "O2", .keep_batchnorm_fp32 = "False", .loss_scale = 128})
//
// The rules, legal overrides and defaults are as in apex.amp.initialize (NVIDIA Apex, e13873de).
// Plain data; thread-safe.
#pragma once

#include "kernels/arguments/view.h"
#include "mixed_precision/built_in.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <optional>
#include <string>
#include <vector>

namespace booster {

struct ApexProperties {
  bool enabled = true;
  std::string opt_level;
  std::optional<DType> cast_model_type;  // none: the model is not cast
  bool patch_torch_functions = false;
  std::optional<bool> keep_batchnorm_fp32;
  std::optional<bool> master_weights;
  LossScalePolicy loss_scale;
  std::optional<DType> cast_model_outputs;

  bool casts_model() const { return cast_model_type == DType::f16; }
  bool has_masters() const { return casts_model() && master_weights.value_or(false); }
  // Returns whether there is anything to scale: a static scale of 1 does nothing.
  bool scales() const { return enabled && (loss_scale.dynamic || loss_scale.init != 1); }
  // Returns one line per property, in Apex's wording.
  std::vector<std::string> describe() const;
};

// Throws for an unknown level, a property that the level does not allow, and an invalid value.
ApexProperties resolve(const FP16ApexOptions& options);

}  // namespace booster
