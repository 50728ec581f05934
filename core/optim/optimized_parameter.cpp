// An optimizer's data for one parameter: the range it owns, the f32 master, the rounding.
#include "core/optim/clip.h"
#include "core/optim/optimizer_body.h"
#include "core/tensor/absence.h"
#include "kernels/arguments/multi_tensor.h"
#include "platform/error.h"

#include <algorithm>

namespace booster {
namespace {

// Returns a copy of a part of the tensor kept for `held`, so that the memory of the rest is freed.
Tensor narrowed(const Tensor& kept, ElementRange held, ElementRange wanted, MemoryTag tag) {
  if (!kept.defined()) return {};
  const MemoryScope memory(tag);
  return untracked::clone(OptimizedParameter::window(kept, held, wanted));
}

bool keeps_numbers(const OptimizedParameter& p) {
  return p.master.defined() || p.compensation.defined() || p.average.defined() ||
         std::ranges::any_of(p.state, &Tensor::defined);
}

void check_range(const OptimizedParameter& p, ElementRange range) {
  const bool is_range = range.begin <= range.end && p.all().contains(range);
  check(is_range, "own: range is outside of parameter {}; got [{}, {}), want within [0, {})",
        p.name, range.begin, range.end, p.all().end);
  check(
      !keeps_numbers(p) || p.owned().contains(range) || range.size() == 0,
      "own: no values are kept for that range of parameter {}; got [{}, {}), want within [{}, {})",
      p.name, range.begin, range.end, p.owned().begin, p.owned().end);
}

std::string wanted_shapes(const OptimizedParameter& p) {
  const std::string whole = p.tensor.shape().to_string();
  return whole + " or " + p.flat_shape().to_string();
}

void check_master(const OptimizedParameter& p, const Tensor& master) {
  const Tensor& tensor = p.tensor;
  check(is_16_bit(tensor.dtype()),
        "set_master: parameter {} needs no master; got {}, want f16 or bf16", p.name,
        name_of(tensor.dtype()));
  const bool fits = master.defined() && master.dtype() == DType::f32 &&
                    (master.shape() == tensor.shape() || master.shape() == p.flat_shape()) &&
                    (master.device() == tensor.device() || master.device() == p.home()) &&
                    master.is_contiguous();
  check(
      fits,
      "set_master: master of {} does not match; got {} {}, want f32 {}, dense, on the same device",
      p.name, master.defined() ? name_of(master.dtype()) : "undefined",
      master.defined() ? master.shape().to_string() : "", wanted_shapes(p));
  check(p.rounding == UpdateRounding::nearest,
        "set_master: parameter {} has a rounding that loses no updates; want only one of the two",
        p.name);
}

}  // namespace

Tensor OptimizedParameter::window(const Tensor& x, ElementRange held, ElementRange wanted) {
  if (held == wanted) return x;
  return untracked::strided(x, {wanted.size()}, {1}, x.body()->offset + wanted.begin - held.begin);
}

Tensor OptimizedParameter::working() const {
  const Tensor part = kept_part(tensor);
  if (!part.defined()) return owned_of(tensor.detach());
  check(kept_range(tensor) == owned(),
        "optimizer: the kept part of {} differs from the owned part; got [{}, {}), want [{}, {})",
        name, kept_range(tensor).begin, kept_range(tensor).end, owned().begin, owned().end);
  return untracked::reshape(part, kept_shape());
}

Tensor OptimizedParameter::gradient() const {
  const Tensor grad = dense_grad(tensor);
  if (!grad.defined()) return grad;
  if (grad.shape() == tensor.shape()) return owned_of(grad);
  check(grad.numel() == owned().size(),
        "optimizer: the gradient of {} does not match the owned part; got {} elements, want {}",
        name, grad.numel(), owned().size());
  return grad;
}

void OptimizedParameter::begin_average() {
  const MemoryScope memory(MemoryTag::optimizer_state);
  refresh_master();
  const Tensor now = untracked::cast(value(), state_dtype()).to(home());
  average = now.shares_storage(value()) ? untracked::clone(now) : now;
}

void OptimizedParameter::refresh_master() {
  if (!master.defined() || master_version == tensor.version()) return;
  master.copy_(working());
  mark_in_step();
}

void Optimizer::settle_masters() {
  body_->for_each([](OptimizedParameter& p) {
    if (!p.master.defined()) return;
    if (p.written_version != p.master.version()) {
      p.working().copy_(p.master);
      p.tensor.bump_version();
    }
    p.mark_in_step();
  });
}

void Optimizer::own(const std::string& name, ElementRange range) {
  OptimizedParameter& p = body_->find("own", name);
  check_range(p, range);
  if (p.owned() == range) return;
  check(!body_->rule->needs_whole_parameters() || range == p.all(),
        "{}: it computes with whole parameters, but ranks would share {}; got [{}, {}) of {}, want "
        "a plugin that keeps parameters whole, such as torch_ddp, or another optimizer",
        body_->rule->name(), name, range.begin, range.end, p.all().end);
  const ElementRange held = p.owned();
  p.part = range;
  p.master = narrowed(p.master, held, range, MemoryTag::masters);
  p.compensation = narrowed(p.compensation, held, range, MemoryTag::optimizer_state);
  p.average = narrowed(p.average, held, range, MemoryTag::optimizer_state);
  for (Tensor& state : p.state) state = narrowed(state, held, range, MemoryTag::optimizer_state);
}

void OptimizedParameter::keep_on(Device device) {
  kept_on = device;
  const auto move = [device](Tensor& kept, MemoryTag tag) {
    if (!kept.defined()) return;
    const MemoryScope memory(tag);
    kept = untracked::to(kept, device);
  };
  const bool is_in_step = master.defined() && written_version == master.version();
  move(master, MemoryTag::masters);
  if (master.defined()) written_version = master.version();
  if (master.defined() && !is_in_step) master.bump_version();  // its parameter is older
  move(compensation, MemoryTag::optimizer_state);
  move(average, MemoryTag::optimizer_state);
  for (Tensor& kept : state) move(kept, MemoryTag::optimizer_state);
  move(steps.on_device, MemoryTag::other);
}

void Optimizer::keep_state_on(Device device) {
  check(device == Device{} || device == body_->device(),
        "keep_state_on: the parameters are on another device; got GPU {}, want their device or the "
        "CPU",
        device.index);
  body_->kept_on = device;
  body_->for_each([device](OptimizedParameter& p) { p.keep_on(device); });
  for (Body::Group& group : body_->groups)
    if (group.steps.on_device.defined())
      group.steps.on_device = untracked::to(group.steps.on_device, device);
}

void Optimizer::set_master(const std::string& name, Tensor master) {
  OptimizedParameter& p = body_->find("set_master", name);
  check_master(p, master);
  const bool is_larger = master.numel() != p.owned().size();
  if (is_larger) master = p.owned_of(master);
  if (master.device() != p.home())
    master = untracked::to(master, p.home());
  else if (is_larger)
    master = untracked::clone(master);
  if (master.shape() != p.kept_shape()) master = untracked::reshape(master, p.kept_shape());
  set_memory_tag(master, MemoryTag::masters);
  p.keep_master(std::move(master));
}

void Optimizer::set_rounding(const std::string& name, UpdateRounding rounding, uint32_t seed) {
  OptimizedParameter& p = body_->find("set_rounding", name);
  check(rounding == UpdateRounding::nearest || p.tensor.dtype() == DType::bf16,
        "set_rounding: parameter {} has the wrong dtype; got {}, want bf16", name,
        name_of(p.tensor.dtype()));
  check(rounding == UpdateRounding::nearest || !p.master.defined(),
        "set_rounding: parameter {} has a master, which loses no updates; want only one of the two",
        name);
  uint64_t index = 0;
  for (const auto& before : parameters()) {
    if (before.name == name) break;
    ++index;
  }
  p.rounding = rounding;
  p.noise_seed = uint64_t{seed} << 32 | index;
  const MemoryScope memory(MemoryTag::optimizer_state);
  p.compensation =
      rounding == UpdateRounding::kahan ? zeros(p.kept_shape(), {DType::bf16, p.home()}) : Tensor();
}

void Optimizer::Body::make_masters() {
  makes_masters = true;
  for_each([](auto& p) {
    const bool rounds = p.rounding != UpdateRounding::nearest;
    if (!is_16_bit(p.tensor.dtype()) || p.master.defined() || rounds) return;
    p.keep_master(untracked::cast(p.working(), DType::f32).to(p.home()));
    set_memory_tag(p.master, MemoryTag::masters);
  });
}

void Optimizer::make_masters() { body_->make_masters(); }

Parameters Optimizer::master_parameters() const {
  Parameters all;
  body_->for_each([&](const auto& p) {
    all.push_back({p.name, p.master.defined() ? p.master : p.tensor});
  });
  return all;
}

Tensor Optimizer::master(const std::string& name) const {
  return body_->find("master", name).master;
}

}  // namespace booster
