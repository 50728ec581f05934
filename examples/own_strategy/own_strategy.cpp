// A strategy of one's own in a shared library: f16 by torch's op lists with a loss scale that never
// changes, and ops of the user's choice in f32. A config names it so:
//   "booster": {"libraries": ["build/examples/libown_strategy.so"],
//               "mixed_precision": {"name": "fp16_static", "scale": 1024, "keep_fp32": ["add"]}}
#include <booster/booster.h>

using namespace booster;

class StaticScalePrecision : public Precision {
 public:
  StaticScalePrecision(double scale, const std::vector<std::string>& keep_fp32)
      : scale_(scale),
        cpu_(torch_autocast_policy(DeviceType::cpu, DType::f16)),
        cuda_(torch_autocast_policy(DeviceType::cuda, DType::f16)) {
    for (const std::string& op : keep_fp32) {
      cpu_.set(op_named(op), OpClass::fp32);
      cuda_.set(op_named(op), OpClass::fp32);
    }
  }

  const char* name() const override { return "fp16_static"; }
  // Ranks that see different gradients must agree on overflow.
  Interaction interaction(const Layout& layout) const override {
    return {.ranks_agree = layout.tensor > 1 || layout.pipeline > 1 || layout.zero_stage > 0};
  }
  const OpPolicy* policy(Device device) const override {
    return device.type == DeviceType::cuda ? &cuda_ : &cpu_;
  }
  Tensor scale(const Tensor& loss) override { return cast(loss, DType::f32) * scale_; }

  // For clipping: gradients in memory become the true ones, once per step.
  void unscale(Optimizer& optimizer) override {
    if (!found_.defined()) found_ = unscale_gradients(optimizer, inverse(optimizer));
  }
  // The step skips if a gradient is not finite; if nobody unscaled, it does so in its own pass.
  Verdict inspect(Optimizer& optimizer) override {
    const Tensor scale = full({}, scale_, {DType::f32, optimizer.device()});
    if (found_.defined()) return {found_, {}, scale};
    const Tensor pending = inverse(optimizer);
    return {find_non_finite(optimizer, pending), pending, scale};
  }
  void update(const Verdict&) override { found_ = Tensor(); }

 private:
  Tensor inverse(const Optimizer& optimizer) const {
    return full({}, 1 / scale_, {DType::f32, optimizer.device()});
  }

  double scale_;
  OpPolicy cpu_, cuda_;
  Tensor found_;  // by unscale, until the step ends
};

BOOSTER_LIBRARY {
  precision_registry().add(
      {"fp16_static",
       "f16 with a constant loss scale",
       {number_option("scale", 1024, {1, 0x1p24}, "what losses are multiplied by"),
        texts_option("keep_fp32", {}, "ops that run in f32, by name")},
       [](const OptionValues& values) {
         return std::make_unique<StaticScalePrecision>(
             values.get<double>("scale"), values.get<std::vector<std::string>>("keep_fp32"));
       }});
}
