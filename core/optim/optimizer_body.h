// The body of an Optimizer's handle; only for files of this folder.
#pragma once

#include "core/optim/optimizer.h"
#include "core/optim/update_rule.h"
#include "core/tensor/staging.h"
#include "kernels/arguments/multi_tensor.h"

#include <array>
#include <optional>

namespace booster {

// Number of taken steps. Only the device knows whether a step is skipped, so it counts them.
struct StepCount {
  Tensor on_device = {};  // one i64; undefined: 0

  // Returns the count; waits for the device.
  int64_t taken() const { return on_device.defined() ? static_cast<int64_t>(on_device.item()) : 0; }
  // Sets the count; writes in place once there is a tensor.
  void set(int64_t taken, Device device) {
    if (on_device.defined()) on_device.fill_(static_cast<double>(taken));
    else if (taken > 0) on_device = scalar(static_cast<double>(taken), {DType::i64, device});
  }
};

// A parameter with its kept tensors, which cover the owned range.
struct OptimizedParameter {
  std::string name;
  Tensor tensor;
  std::optional<ElementRange> part = {};  // owned range; none: all, whatever the size
  std::optional<Device> kept_on = {};     // where its state is kept; none: the parameter's device
  Tensor master = {};                     // f32, if the parameter is 16-bit and has one
  uint32_t master_version = 0;       // the tensor's version when last written from the master
  uint32_t written_version = 0;      // the master's version at that time
  Tensor compensation = {};          // bf16, if the rounding is Kahan's
  Tensor average = {};               // f32 or f64, if there is an average (parameter_average.h)
  std::array<Tensor, max_states> state =
      {};  // undefined until the first step, then 0 until a step is taken
  StepCount steps = {};
  UpdateRounding rounding = UpdateRounding::nearest;
  uint64_t noise_seed = 0;

  ElementRange all() const { return {0, tensor.numel()}; }
  ElementRange owned() const { return part.value_or(all()); }
  bool is_owned_whole() const { return owned() == all(); }
  Shape flat_shape() const { return {owned().size()}; }
  // Returns the device of the kept tensors.
  Device home() const { return kept_on.value_or(tensor.device()); }
  Shape kept_shape() const { return is_owned_whole() ? tensor.shape() : flat_shape(); }
  // Returns the elements `wanted` of a dense tensor that holds the elements `held`: the tensor
  // itself if both ranges are equal, else a flat window on it.
  static Tensor window(const Tensor& x, ElementRange held, ElementRange wanted);
  // Returns the owned elements of a dense tensor of the parameter's shape.
  Tensor owned_of(const Tensor& x) const { return window(x, all(), owned()); }

  // Moves the kept tensors.
  void keep_on(Device device);
  // Returns the owned elements of the parameter itself, on its device.
  Tensor working() const;
  // Returns the owned elements of the gradient that steps use. Undefined if there is none. After an
  // exchange, this may be only this rank's part.
  Tensor gradient() const;

  // Returns the tensor that steps update; a master is on home().
  Tensor value() const { return master.defined() ? master : working(); }
  // Starts the average from the current value.
  void begin_average();
  void keep_master(Tensor f32) {
    master = std::move(f32);
    mark_in_step();
  }
  // Marks that parameter and master represent the same values.
  void mark_in_step() {
    master_version = tensor.version();
    if (master.defined()) written_version = master.version();
  }
  // Takes over working values that changed since the last step (loaded weights).
  void refresh_master();
  DType state_dtype() const {
    return tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  }
};

struct Optimizer::Body {
  struct Group {
    std::vector<OptimizedParameter> parameters;
    OptimizerOptions options;
    OptimizerOptions constructed;  // as given by the program
    StepCount steps = {};
    Tensor numbers = {};  // StepNumbers of `options` as bytes on the device; see numbers_of

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
  Tensor clipped_norm;  // the norm that gave clip_factor, until the step
  std::vector<std::pair<Tensor, uint32_t>> clipped;  // gradients of that norm, with versions
  bool clip_was_used = false;  // by a step, which then clips no other gradients
  NormSharing sharing;
  bool makes_masters = false;  // for added parameters
  std::vector<GroupListener> listeners;
  std::optional<Device> kept_on;   // state's device; none: the parameters' device
  std::optional<Staging> staging;  // between kept_on and their GPU; made when needed

  void add(const ParameterGroup& group);
  void make_masters();
  OptimizedParameter& find(const char* what, const std::string& name);
  Device device() const { return groups[0].parameters[0].tensor.device(); }
  // Returns the device on which steps run.
  Device home() const { return kept_on.value_or(device()); }
  std::vector<Tensor> gradients() const;
  // Throws if a boosted training keeps the gradients; see check_not_kept.
  void check_not_kept(const char* call, const char* instead) const;
  // Returns the norm of all gradients, over all ranks if they share it.
  Tensor gradient_norm(double power) const;
  void forget_clip();
  void settle_clip();
  // Returns true if the gradients are the clipped ones, unchanged.
  bool gradients_are_clipped() const;
  // Returns the factor that a step now applies; undefined if there is none.
  Tensor use_clip();
  // Returns the group's options as kernels read them, on the steps' device. The first call creates
  // them.
  const kernels::StepNumbers* numbers_of(Group& group) const;
  // Rewrites them in place after a change of options, if they exist.
  void renew_numbers(const Group& group) const;
  void step(kernels::StepControl control);

  template <class F>
  void for_each(F&& f) {
    for (auto& group : groups)
      for (auto& parameter : group.parameters) f(parameter);
  }
};

}  // namespace booster
