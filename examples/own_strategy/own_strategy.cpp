// A custom strategy in a shared library: f16 with torch's op lists and a constant loss scale; ops
// of the user's choice stay in f32. To use it in a config:
//   "booster": {"libraries": ["build/examples/libown_strategy.so"],
//               "mixed_precision": {"name": "fp16_static", "scale": 1024, "keep_fp32": ["add"]}}
#include <booster/booster.h>

using namespace booster;

// ScaledPrecision scales losses, unscales gradients and skips steps that are not finite, for any
// order of calls in a loop.
class StaticScalePrecision : public ScaledPrecision {
 public:
  StaticScalePrecision(double scale, const std::vector<std::string>& keep_fp32)
      : ScaledPrecision(LossScaler({.init = scale, .dynamic = false})),
        cpu_(torch_autocast_policy(DeviceType::cpu, DType::f16)),
        cuda_(torch_autocast_policy(DeviceType::cuda, DType::f16)) {
    for (const std::string& op : keep_fp32) {
      cpu_.set(op_named(op), OpClass::fp32);
      cuda_.set(op_named(op), OpClass::fp32);
    }
  }

  const char* name() const override { return "fp16_static"; }
  const OpPolicy* policy(Device device) const override {
    return device.type == DeviceType::cuda ? &cuda_ : &cpu_;
  }

 private:
  OpPolicy cpu_, cuda_;
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
