// fp8: Linear layers and the projections of attention in 8-bit floats, E4M3 forward and E5M2 for
// gradients, with one scale per tensor. All other ops run as in bf16. Parameters stay f32. The
// 8-bit scales keep gradients in range, so the loss is not scaled.
//
// Every processor computes exactly the values of 8-bit matrix units, up to the order of sums
// (fp8_linear.h). A layer runs in bf16 if `exclude` names it, or if its sizes are not multiples of
// 16, which matrix units require. notes() lists these layers and the reasons. A batch may have any
// number of rows: padding them with zeros gives the same results.
#pragma once

#include "mixed_precision/built_in.h"
#include "mixed_precision/fp8/fp8_linear.h"
#include "mixed_precision/scaling/overflow_memory.h"

namespace booster {

class FP8 : public Precision {
 public:
  // Throws if an option is out of range.
  explicit FP8(FP8Options options = {});

  const char* name() const override { return "fp8"; }
  // Throws if a name in `exclude` matches no linear layer.
  void check_fits(const Model& model) const override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  const OpPolicy* policy(Device device) const override;
  SharedNumbers end_forward() override { return end(Pass::forward, {}); }
  LossPass begin_loss(const LossStart& start) override;
  // Notes overflows. Gradients are already true, but the caller may make infinities finite.
  void unscale(Optimizer& optimizer) override { overflows_.look(optimizer); }
  Tensor norm_factor(Optimizer&) override { return {}; }
  Verdict inspect(Optimizer& optimizer) override { return overflows_.inspect(optimizer); }
  void abandon(const Optimizer& optimizer) override { overflows_.forget(optimizer); }
  StateDict state_tensors() const override;
  bool state_differs_by_rank() const override { return !options_.reduce_amax; }

  // Returns the names of the layers that run in 8 bits.
  const std::vector<std::string>& layers() const { return layers_; }

 private:
  // Ends a pass with gradients for these optimizers.
  SharedNumbers end(Pass pass, const Optimizers& optimizers);
  void agreed(Pass pass, const Optimizers& optimizers);

  FP8Options options_;
  Fp8Recipe recipe_;
  std::shared_ptr<Fp8Linear> linear_;  // null before prepare, or if no layer fits
  OpPolicy cpu_, cuda_;
  std::vector<std::string> layers_;
  OverflowMemory overflows_;
};

}  // namespace booster
