// Apex amp's optimisation levels: the user's options, and the resulting properties.
//
//   resolve({.opt_level = "O2", .keep_batchnorm_fp32 = "False", .loss_scale = 128})
//
// The rules, legal overrides and defaults are as in apex.amp.initialize (NVIDIA Apex, e13873de).
// Plain data; thread-safe.
#pragma once

#include "kernels/arguments/view.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace booster {

// A property in the forms that Apex accepts: a flag, a number, or either as text ("False", "128.0",
// "dynamic"). Empty if not given: the level decides.
class ApexValue {
 public:
  ApexValue() = default;
  ApexValue(bool flag) : text_(flag ? "True" : "False") {}
  template <class Number>
    requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>)
  ApexValue(Number number) : text_(fmt::format("{}", number)) {}
  ApexValue(const char* text) : text_(text) {}
  ApexValue(std::string text) : text_(std::move(text)) {}

  bool given() const { return text_.has_value(); }
  // As Python prints it: "None" if not given.
  std::string to_string() const { return text_.value_or("None"); }

 private:
  std::optional<std::string> text_;
};

struct FP16ApexOptions {
  bool enabled = true;  // false: no effect, as fp32
  std::string opt_level = "O1";
  // --- properties; default: the level's
  ApexValue cast_model_type = {};        // "fp16", "fp32", or false: the model is not cast
  ApexValue patch_torch_functions = {};  // flag: ops cast by the lists of O1
  ApexValue keep_batchnorm_fp32 = {};    // flag
  ApexValue master_weights = {};         // flag
  ApexValue loss_scale = {};             // "dynamic" or a number
  // --- the rest
  ApexValue cast_model_outputs = {};  // "fp16" or "fp32"
  int num_losses = 1;                 // loss scalers, chosen by loss_id
  int verbosity = 1;                  // 0: silent; 1: prints the properties; 2: also casts of O1
                                      // and, with the next loss, skipped steps
  double min_loss_scale = 0;          // 0: no limit
  double max_loss_scale = 0x1p24;
  // --- O1: ops, by our names or torch's, that run in f16, in f32, or in their arguments' widest
  // dtype
  std::vector<std::string> half_functions = {};
  std::vector<std::string> float_functions = {};
  std::vector<std::string> promote_functions = {};
};

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
  // Whether there is anything to scale: a static scale of 1 does nothing.
  bool scales() const { return enabled && (loss_scale.dynamic || loss_scale.init != 1); }
  // One line per property, in Apex's wording.
  std::vector<std::string> describe() const;
};

// Throws for an unknown level, a property that the level does not allow, and an invalid value.
ApexProperties resolve(const FP16ApexOptions& options);

}  // namespace booster
