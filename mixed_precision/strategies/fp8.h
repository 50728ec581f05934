// fp8: Linear layers and the projections of attention in 8-bit floats, E4M3 forward and E5M2 for
// gradients, each tensor with a scale of its own; everything else as in bf16. Parameters stay f32.
// 8-bit scales keep gradients in range, so the loss is not scaled.
//
// On every processor the numbers are exactly those of 8-bit matrix units, up to the order of sums
// (fp8_linear.h). A layer whose sizes are not multiples of 16, as those units want them, or that
// `exclude` names runs in bf16; notes() says which and why. The rows of a batch may be any number:
// filled up with zeros they give the same results.
#pragma once

#include "core/nn/no_options.h"
#include "mixed_precision/fp8/fp8_linear.h"
#include "mixed_precision/scaling/overflow_memory.h"

namespace booster {

struct FP8Options {
  std::string scaling = "delayed";  // or "current"
  std::string format = "hybrid";    // e4m3 forward, e5m2 gradients; "e4m3": both
  // delayed scaling
  int64_t amax_history_len = 1024;
  std::string amax_compute_algo = "max";  // of the history; or "most_recent"
  int64_t margin = 0;                     // scales are divided by 2^margin
  bool reduce_amax = true;  // magnitudes are the largest over the ranks that hold a layer
  // current scaling
  bool power_of_two_scales = false;
  double amax_epsilon = 0;  // smaller magnitudes count as this
  // which layers
  std::vector<std::string> exclude = {};  // names of layers or of modules that hold some
  bool first_and_last_in_bf16 = false;
  bool skip_non_finite = true;  // look at gradients and quantized tensors before a step
};

class FP8MixedPrecision : public Precision {
 public:
  // Error if an option is out of its range.
  explicit FP8MixedPrecision(FP8Options options = {});
  explicit FP8MixedPrecision(NoOptions) : FP8MixedPrecision() {}

  const char* name() const override { return "fp8"; }
  // Error if `exclude` names no module.
  void check_fits(const Model& model) const override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  const OpPolicy* policy(Device device) const override;
  void begin_loss(const ScaleLossOptions& options, const Optimizers& optimizers) override;
  void reached(const Optimizer& optimizer) override { of_loss_.push_back(optimizer); }
  SharedNumbers end(Pass pass) override;
  void agreed(Pass pass) override;
  // Gradients are true already; but who asks will change them, and may make infinities finite.
  void unscale(Optimizer& optimizer) override { overflows_.look(optimizer); }
  Tensor norm_factor(Optimizer&) override { return {}; }
  Verdict inspect(Optimizer& optimizer) override { return overflows_.inspect(optimizer); }
  void abandon(const Optimizer& optimizer) override { overflows_.forget(optimizer); }
  StateDict state_tensors() const override;
  bool state_differs_by_rank() const override { return !options_.reduce_amax; }

  // The layers that run in 8 bits, by name.
  const std::vector<std::string>& layers() const { return layers_; }

 private:
  FP8Options options_;
  Fp8Recipe recipe_;
  std::shared_ptr<Fp8Linear> linear_;  // none before prepare, or where no layer fits
  OpPolicy cpu_, cuda_;
  std::vector<std::string> layers_;
  Optimizers of_loss_;  // the last one, named or reached
  OverflowMemory overflows_;
};

}  // namespace booster
