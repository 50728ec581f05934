// bf16: torch's autocast with bf16. Parameters stay f32, listed ops run in bf16; bf16 has f32's
// range, so the loss is not scaled. A step whose gradients are not finite is skipped by default.
#pragma once

#include "mixed_precision/precision.h"

namespace booster {

struct BF16Options {
  bool skip_non_finite = true;  // look at the gradients before a step (one read of them)
};

class BF16MixedPrecision : public Precision {
 public:
  explicit BF16MixedPrecision(BF16Options options = {}) : options_(options) {}

  const char* name() const override { return "bf16"; }
  Interaction interaction(const Layout& layout) const override;
  const OpPolicy* policy(Device device) const override;
  Verdict inspect(Optimizer& optimizer) override;

 private:
  BF16Options options_;
};

}  // namespace booster
