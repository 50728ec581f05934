// What lies behind an Optimizer's handle; for the files of this room only.
#pragma once

#include "core/optim/optimizer.h"

#include <array>

namespace booster {

// A count of steps. Whether a step was skipped is known on the device alone, so it is counted
// there.
struct StepCount {
  int64_t tried = 0;
  Tensor skipped = {};  // one i64; undefined: 0

  // Waits for the device.
  int64_t taken() const {
    return tried - (skipped.defined() ? static_cast<int64_t>(skipped.item()) : 0);
  }
};

// A parameter with what the optimizer keeps for it.
struct OptimizedParameter {
  std::string name;
  Tensor tensor;
  Tensor master = {};                // f32, where the parameter is 16-bit and has one
  uint32_t master_version = 0;       // the tensor's when it was last written from the master
  Tensor compensation = {};          // bf16, where the rounding is Kahan's
  std::array<Tensor, 2> state = {};  // undefined until the first step, then 0 until one is taken
  StepCount steps = {};
  UpdateRounding rounding = UpdateRounding::nearest;
  uint64_t noise_seed = 0;

  const Tensor& value() const { return master.defined() ? master : tensor; }
  void keep_master(Tensor f32) {
    master = std::move(f32);
    master_version = tensor.version();
  }
  DType state_dtype() const { return value().dtype() == DType::f64 ? DType::f64 : DType::f32; }
};

struct Optimizer::Body {
  struct Group {
    std::vector<OptimizedParameter> parameters;
    Options options;
    StepCount steps = {};
  };
  std::unique_ptr<UpdateRule> rule;
  Options defaults;
  std::vector<Group> groups;
  Tensor clip_factor;   // of the next step; undefined: none
  Tensor clipped_norm;  // that it was worked out from, until the step
  std::vector<std::pair<Tensor, uint32_t>> clipped;  // the gradients of that norm, with versions
  bool makes_masters = false;  // for parameters that are added

  void add(const ParameterGroup& group);
  void make_masters();
  OptimizedParameter& find(const char* what, const std::string& name);
  std::vector<Tensor> gradients() const;
  void forget_clip();
  // Multiplies the pending clip factor into the gradients.
  void apply_clip();
  void step(kernels::StepControl control);

  template <class F>
  void for_each(F&& f) {
    for (auto& group : groups)
      for (auto& parameter : group.parameters) f(parameter);
  }
};

}  // namespace booster
