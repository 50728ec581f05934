#include "mixed_precision/strategies/fp16_apex.h"

#include "core/autograd/functions.h"
#include "mixed_precision/apex/apex_properties.h"
#include "mixed_precision/scaling/scaled_step.h"
#include "platform/copies.h"

namespace booster {

class FP16Apex::Mode {
 public:
  explicit Mode(FP16Apex& apex) : apex_(apex), amp_(apex.amp_) {}
  virtual ~Mode() = default;
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;
  virtual LossPass begin_loss(const LossStart& start) = 0;
  virtual void unscale(Optimizer& optimizer) = 0;
  virtual Tensor gradient_factor(const Optimizer& optimizer) const = 0;
  virtual Verdict inspect(Optimizer& optimizer) = 0;
  virtual void abandon(const Optimizer& optimizer) = 0;
  virtual void update(const Verdict& verdict) = 0;

 protected:
  FP16Apex& apex_;
  ApexBody& amp_;
};

// One loss and one optimizer: the step unscales, checks for overflows and updates the scale.
class FP16Apex::PerStep : public Mode {
 public:
  using Mode::Mode;

  LossPass begin_loss(const LossStart& start) override {
    apex_.check_options(start.options);
    amp_.tell_overflows();
    if (scales()) step().begin();
    return {.scale = [this](const Tensor& loss) {
      if (scales()) return step().scale(loss);
      return amp_.properties().enabled ? cast(loss, DType::f32) : loss;
    }};
  }
  void unscale(Optimizer& optimizer) override {
    if (scales()) step().unscale(optimizer);
  }
  Tensor gradient_factor(const Optimizer& optimizer) const override {
    return scales() ? step().pending_inverse(optimizer) : Tensor();
  }
  Verdict inspect(Optimizer& optimizer) override {
    return scales() ? step().inspect(optimizer) : Verdict{};
  }
  void abandon(const Optimizer& optimizer) override {
    if (scales()) step().abandon(optimizer);
  }
  void update(const Verdict& verdict) override {
    if (!scales()) return;
    step().update(verdict);
    amp_.remember_overflow(0, verdict.found_inf);
  }

 private:
  bool scales() const { return amp_.properties().scales(); }
  ScaledStep& step() const { return amp_.loss(0); }
};

// Several losses or optimizers: each loss is unscaled when its backward pass ends, and then updates
// its own scale.
class FP16Apex::PerLoss : public Mode {
 public:
  using Mode::Mode;

  LossPass begin_loss(const LossStart& start) override {
    check(start.options.delay_unscale || !start.stays_local,
          "booster.backward: {} unscales each loss, but under no_sync gradients are still local to "
          "this rank; want delay_unscale for every loss but the last",
          apex_.name());
    amp_.begin_loss(start.options, start.optimizers);
    return {.scale = [this](const Tensor& loss) { return amp_.scale(loss); },
            .end = [this](const Optimizers&) { return end(); }};
  }
  void unscale(Optimizer& optimizer) override { amp_.unscale_now(optimizer); }
  Tensor gradient_factor(const Optimizer& optimizer) const override {
    return amp_.pending_inverse(optimizer);
  }
  Verdict inspect(Optimizer& optimizer) override { return {amp_.skip_of(optimizer), {}, scale_}; }
  void abandon(const Optimizer& optimizer) override { amp_.abandon(optimizer); }
  void update(const Verdict&) override {}

 private:
  SharedNumbers end() {
    scale_ = amp_.scale_of_pass();
    return {.numbers = amp_.unscale(), .agreed = [this] { amp_.end_loss(); }};
  }

  Tensor scale_;  // the factor of the last loss
};

FP16Apex::FP16Apex(const FP16ApexOptions& options) : amp_(options), verbosity_(options.verbosity) {}
FP16Apex::FP16Apex(const FP16Apex& other)
    : Precision(other), amp_(other.amp_), verbosity_(other.verbosity_) {}
FP16Apex::~FP16Apex() = default;

void FP16Apex::prepare(const Model& model, const Optimizers& optimizers) {
  amp_.initialize({model}, optimizers);
  if (amp_.losses() > 1 || optimizers.size() > 1)
    mode_ = std::make_unique<PerLoss>(*this);
  else
    mode_ = std::make_unique<PerStep>(*this);
  amp_.loss(0).serve(optimizers);
  amp_.set_listener([this](const std::string& line) { add_note("fp16_apex: " + line); });
  if (verbosity_ < 1) return;
  for (const std::string& line : amp_.properties().describe()) add_note("fp16_apex: " + line);
}

LossPass FP16Apex::begin_loss(const LossStart& start) { return mode_->begin_loss(start); }
void FP16Apex::unscale(Optimizer& optimizer) { mode_->unscale(optimizer); }
Tensor FP16Apex::gradient_factor(const Optimizer& optimizer) const {
  return mode_->gradient_factor(optimizer);
}
Verdict FP16Apex::inspect(Optimizer& optimizer) { return mode_->inspect(optimizer); }
void FP16Apex::abandon(const Optimizer& optimizer) { mode_->abandon(optimizer); }
void FP16Apex::update(const Verdict& verdict) { mode_->update(verdict); }

double FP16Apex::loss_scale(int loss_id) const {
  const double scale = amp_.loss(loss_id).scaler().get_scale();
  return amp_.properties().scales() ? scale : 1;
}

bool FP16Apex::seeks_scale() const { return amp_.loss(0).scaler().policy().dynamic; }

std::string FP16Apex::refusal() const {
  std::string text;
  for (int id = 0; id < amp_.losses(); ++id) {
    const std::string one = amp_.loss(id).scaler().diagnosis();
    if (!one.empty()) text += (text.empty() ? "" : "; ") + fmt::format("loss {}: {}", id, one);
  }
  return text;
}

PrecisionMaker FP16ApexMixedPrecision(FP16ApexOptions options) {
  return copies_of<Precision>(FP16Apex(options));
}

}  // namespace booster
