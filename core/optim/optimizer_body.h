// What lies behind an Optimizer's handle; for the files of this room only.
#pragma once

#include "core/optim/optimizer.h"
#include "core/tensor/staging.h"

#include <array>
#include <optional>

namespace booster {

// A count of steps that were taken. Whether a step is skipped is known on the device alone, so they
// are counted there.
struct StepCount {
  Tensor on_device = {};  // one i64; undefined: 0

  // Waits for the device.
  int64_t taken() const { return on_device.defined() ? static_cast<int64_t>(on_device.item()) : 0; }
  // In place, once there is one.
  void set(int64_t taken, Device device) {
    if (on_device.defined()) on_device.fill_(static_cast<double>(taken));
    else if (taken > 0) on_device = scalar(static_cast<double>(taken), {DType::i64, device});
  }
};

// A parameter with what the optimizer keeps for it. What it keeps covers the range that it owns.
struct OptimizedParameter {
  std::string name;
  Tensor tensor;
  std::optional<ElementRange> part = {};  // what is owned of it; none: all, whatever its size
  std::optional<Device> kept_on = {};     // what is kept for it; none: where it is
  Tensor master = {};                // f32, where the parameter is 16-bit and has one
  uint32_t master_version = 0;       // the tensor's when it was last written from the master
  uint32_t written_version = 0;      // the master's then
  Tensor compensation = {};          // bf16, where the rounding is Kahan's
  Tensor average = {};               // f32 or f64, where values are averaged (parameter_average.h)
  std::array<Tensor, max_states> state =
      {};  // undefined until the first step, then 0 until one is taken
  StepCount steps = {};
  UpdateRounding rounding = UpdateRounding::nearest;
  uint64_t noise_seed = 0;

  ElementRange all() const { return {0, tensor.numel()}; }
  ElementRange owned() const { return part.value_or(all()); }
  bool is_owned_whole() const { return owned() == all(); }
  Shape flat_shape() const { return {owned().size()}; }
  // Of what is kept.
  Device home() const { return kept_on.value_or(tensor.device()); }
  Shape kept_shape() const { return is_owned_whole() ? tensor.shape() : flat_shape(); }
  // The elements `wanted` of a dense tensor that holds those of `held`: the tensor itself where
  // they are all, else a flat window on it.
  static Tensor window(const Tensor& x, ElementRange held, ElementRange wanted);
  // The owned elements of a dense tensor of the parameter's shape.
  Tensor owned_of(const Tensor& x) const { return window(x, all(), owned()); }

  // Moves what is kept.
  void keep_on(Device device);
  // The owned elements of the parameter itself, wherever they are.
  Tensor working() const;
  // Of the owned elements: what steps use. Undefined where there is none. Ranks that exchanged
  // gradients may have left this one its part only.
  Tensor gradient() const;

  // What steps update; a master is at home.
  Tensor value() const { return master.defined() ? master : working(); }
  // From what it is now.
  void begin_average();
  void keep_master(Tensor f32) {
    master = std::move(f32);
    mark_in_step();
  }
  // Parameter and master stand for the same number.
  void mark_in_step() {
    master_version = tensor.version();
    if (master.defined()) written_version = master.version();
  }
  // Working numbers that somebody changed since the last step (loaded weights) are the truth.
  void refresh_master();
  DType state_dtype() const {
    return tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  }
};

struct Optimizer::Body {
  struct Group {
    std::vector<OptimizedParameter> parameters;
    OptimizerOptions options;
    OptimizerOptions constructed;  // as the program gave them
    StepCount steps = {};
    Tensor numbers = {};  // bytes of StepNumbers on the device, those of `options`; see numbers_of

    std::vector<std::string> names() const {
      std::vector<std::string> all;
      for (const OptimizedParameter& parameter : parameters) all.push_back(parameter.name);
      return all;
    }
  };
  std::unique_ptr<UpdateRule> rule;
  OptimizerOptions defaults;
  std::vector<Group> groups;
  Tensor clip_factor;   // of the next step; undefined: none
  Tensor clipped_norm;  // that it was worked out from, until the step
  std::vector<std::pair<Tensor, uint32_t>> clipped;  // the gradients of that norm, with versions
  bool clip_was_used = false;  // by a step: other gradients than those of the clip are not clipped
  NormSharing sharing;
  bool makes_masters = false;  // for parameters that are added
  std::vector<GroupListener> listeners;
  std::optional<Device> kept_on;   // state; none: where the parameters are
  std::optional<Staging> staging;  // between there and their GPU, since a step first needed it

  void add(const ParameterGroup& group);
  void make_masters();
  OptimizedParameter& find(const char* what, const std::string& name);
  Device device() const { return groups[0].parameters[0].tensor.device(); }
  // Where steps run.
  Device home() const { return kept_on.value_or(device()); }
  std::vector<Tensor> gradients() const;
  // Error if a boosted training keeps the gradients; see check_not_kept.
  void check_not_kept(const char* call, const char* instead) const;
  // The norm of all gradients, of all ranks' where they share it.
  Tensor gradient_norm(double power) const;
  void forget_clip();
  void settle_clip();
  // True if the gradients are those that were clipped, unchanged.
  bool gradients_are_clipped() const;
  // The factor that a step now applies; undefined: none.
  Tensor use_clip();
  // The group's options as kernels read them, where steps run; made by the first one.
  const kernels::StepNumbers* numbers_of(Group& group) const;
  // Rewrites them in place, where there are any, after a change of the options.
  void renew_numbers(const Group& group) const;
  void step(kernels::StepControl control);

  template <class F>
  void for_each(F&& f) {
    for (auto& group : groups)
      for (auto& parameter : group.parameters) f(parameter);
  }
};

}  // namespace booster
