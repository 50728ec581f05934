#include "mixed_precision/apex/apex_amp.h"

#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/optim/clip.h"
#include "mixed_precision/apex/apex_properties.h"
#include "mixed_precision/ops/op_policies.h"
#include "mixed_precision/scaling/overflow_memory.h"
#include "mixed_precision/scaling/scaled_step.h"
#include "platform/warn.h"

#include <algorithm>

namespace booster {

namespace {

OpPolicy o1_policy(DeviceType device, const FP16ApexOptions& options) {
  return apex_o1_policy(device, {.half = options.half_functions,
                                 .floating = options.float_functions,
                                 .promote = options.promote_functions});
}

// Formats a float as Python does: 32768.0, 6.103515625e-05.
std::string python_text(double x) {
  std::string text = fmt::format("{}", x);
  const bool is_whole = text.find_first_of(".en") == std::string::npos;  // an exponent, nan, inf
  return is_whole ? text + ".0" : text;
}

Tensor cast_floating(const Tensor& x, DType dtype) {
  return is_floating(x.dtype()) ? cast(x, dtype) : x;
}

void check_not_half(const Model& model) {
  for (const auto& [name, tensor] : model.state_dict())
    check(!is_16_bit(tensor.dtype()),
          "fp16_apex: the model already has 16-bit parameters; got {} in {}, want an fp32 model, "
          "which the level casts itself",
          name, name_of(tensor.dtype()));
}

void cast_to_f32(const Model& model, const ModelCast& cast) {
  for (const auto& [name, module] : model->named_modules())
    if (!cast.keep || !cast.keep(name, *module)) module->convert_own(DType::f32);
}

// Gives masters their parameters' gradients, so that clipping works on either.
void share_gradients(const Optimizer& optimizer) {
  const Parameters parameters = optimizer.parameters(), masters = optimizer.master_parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!masters[i].tensor.same_body(parameters[i].tensor))
      masters[i].tensor.set_grad(parameters[i].tensor.grad());
}

void forget_gradients_of_masters(const Optimizer& optimizer) {
  const Parameters parameters = optimizer.parameters(), masters = optimizer.master_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (masters[i].tensor.same_body(parameters[i].tensor)) continue;
    clear_grad(parameters[i].tensor);
    clear_grad(masters[i].tensor);
  }
}

}  // namespace

ApexAmp::ApexAmp(const ApexAmp& other) = default;
ApexAmp::~ApexAmp() = default;

ApexAmp::ApexAmp(FP16ApexOptions options)
    : options_(std::move(options)),
      properties_(std::make_shared<const ApexProperties>(resolve(options_))),
      losses_(static_cast<size_t>(options_.num_losses), ScaledStep(properties_->loss_scale)) {
  set_listener(warn);
}

bool ApexAmp::does_nothing() const { return !properties_->scales() && !properties_->has_masters(); }

void ApexAmp::make_policies() {
  OpPolicy on_cpu = o1_policy(DeviceType::cpu, options_);
  OpPolicy on_cuda = o1_policy(DeviceType::cuda, options_);
  if (options_.verbosity >= 2)
    on_cpu.on_cast = on_cuda.on_cast = [tell = listener_](Op op, DType to) {
      tell(fmt::format("{} ({})", to == DType::f32 ? "Half->Float" : "Float->Half",
                       torch_name_of(op)));
    };
  on_cpu_ = std::move(on_cpu);
  on_cuda_ = std::move(on_cuda);
}

void ApexAmp::check_function(std::vector<std::string>& functions, const std::string& op) {
  check(!initialized_, "fp16_apex: register functions before initialize; got {} after it", op);
  functions.push_back(op);
  try {
    make_policies();
  } catch (const Error&) {
    functions.pop_back();
    throw;
  }
}

void ApexAmp::register_half_function(const std::string& op) {
  check_function(options_.half_functions, op);
}
void ApexAmp::register_float_function(const std::string& op) {
  check_function(options_.float_functions, op);
}
void ApexAmp::register_promote_function(const std::string& op) {
  check_function(options_.promote_functions, op);
}

void ApexAmp::set_listener(std::function<void(const std::string& line)> listener) {
  listener_ = std::move(listener);
  make_policies();
}

void ApexAmp::remember_overflow(int loss_id, const Tensor& found) {
  if (options_.verbosity < 2 || !found.defined()) return;
  untold_.push_back({loss_id, found, loss(loss_id).scaler().scale_tensor().clone()});
}

void ApexAmp::tell_overflows() {
  for (const auto& [loss_id, found, scale] : std::exchange(untold_, {}))
    if (found.item() != 0)
      listener_(
          fmt::format("Gradient overflow.  Skipping step, loss scaler {} reducing loss scale to {}",
                      loss_id, python_text(scale.item())));
}

void ApexAmp::initialize(const std::vector<Model>& models,
                         const std::vector<Optimizer>& optimizers) {
  check(!initialized_, "fp16_apex: initialize was called twice; want one call for all models");
  for (size_t i = 0; i < optimizers.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      check(!(optimizers[i] == optimizers[j]),
            "fp16_apex: the same optimizer occurs twice; want each once");
  if (properties_->enabled)
    for (const Model& model : models) check_not_half(model);
  initialized_ = true;
  for (const Optimizer& optimizer : optimizers) entries_.push_back({optimizer});
  if (!properties_->enabled || !properties_->cast_model_type) return;
  ModelCast rule = {.dtype = DType::f16, .masters = properties_->has_masters(), .keep = {}};
  if (properties_->keep_batchnorm_fp32.value_or(false)) rule.keep = is_affine_batch_norm;
  if (properties_->casts_model()) return cast_models(models, optimizers, rule);
  for (const Model& model : models) cast_to_f32(model, rule);
}

Tensor ApexAmp::forward(const Model& model, const Tensor& x) const {
  const PolicyScope numbers(policy(x.device()));
  return cast_output(model(cast_input(x)));
}

const OpPolicy* ApexAmp::policy(Device device) const {
  if (!properties_->enabled || !properties_->patch_torch_functions) return nullptr;
  return device.type == DeviceType::cuda ? &on_cuda_ : &on_cpu_;
}

Tensor ApexAmp::cast_input(const Tensor& x) const {
  if (!properties_->enabled || !properties_->cast_model_type) return x;
  return cast_floating(x, *properties_->cast_model_type);
}

Tensor ApexAmp::cast_output(const Tensor& y) const {
  const auto& wanted = properties_->cast_model_outputs;
  if (!properties_->enabled || (!properties_->cast_model_type && !wanted)) return y;
  return cast_floating(y, wanted.value_or(DType::f32));
}

ApexAmp::Entry& ApexAmp::entry(const Optimizer& optimizer) {
  check(initialized_, "fp16_apex: not initialized; want initialize(models, optimizers) first");
  for (Entry& entry : entries_)
    if (entry.optimizer == optimizer) return entry;
  fail("fp16_apex: unknown optimizer; want one that was passed to initialize");
}

ScaledStep& ApexAmp::loss(int loss_id) {
  check(loss_id >= 0 && loss_id < options_.num_losses,
        "fp16_apex: loss_id is out of range; got {}, want 0 to {} (num_losses - 1)", loss_id,
        options_.num_losses - 1);
  return losses_[static_cast<size_t>(loss_id)];
}
const ScaledStep& ApexAmp::loss(int loss_id) const {
  return const_cast<ApexAmp&>(*this).loss(loss_id);
}

const LossScaler& ApexAmp::scaler(int loss_id) const { return loss(loss_id).scaler(); }

std::vector<ApexAmp::Entry*> ApexAmp::entries(const std::vector<Optimizer>& optimizers) {
  std::vector<Entry*> found;
  for (const Optimizer& optimizer : optimizers) found.push_back(&entry(optimizer));
  return found;
}

// Copies the gradients, because their memory may be overwritten (communication buckets).
ApexAmp::Stash::Stash(const Entry& entry) : entry_(&entry) {
  for (const auto& [name, parameter] : entry.optimizer.parameters_with_grad()) {
    kept_.emplace_back(parameter, parameter.grad().clone());
    clear_grad(parameter);
  }
}

void ApexAmp::Stash::add_back(const Tensor& scale) const {
  for (const auto& [parameter, before] : kept_) {
    if (entry_->scaled_by >= 0) scale_gradients({before}, scale);
    if (parameter.grad().defined())
      parameter.grad().add_(before);
    else if (before.shape() == parameter.shape())
      parameter.set_grad(before);
    else
      set_grad_part(parameter, before);
  }
}

void ApexAmp::scale_loss(const Tensor& loss, const std::vector<Optimizer>& optimizers,
                         const std::function<void(const Tensor& scaled)>& backward,
                         const ScaleLossOptions& options) {
  begin_loss(options, optimizers);
  backward(scale(loss));
  unscale();
  end_loss();
  for (const Optimizer& optimizer : optimizers)
    if (pass_.found.defined()) share_gradients(optimizer);
}

void ApexAmp::begin_loss(const ScaleLossOptions& options,
                         const std::vector<Optimizer>& optimizers) {
  pass_ = {};
  if (!properties_->enabled) return;
  check(initialized_, "fp16_apex: not initialized; want initialize(models, optimizers) first");
  LossScaler& scaler = loss(options.loss_id).scaler();
  const std::vector<Entry*> named = entries(optimizers);
  for (const Entry* entry : named)
    check(entry->scaled_by < 0 || entry->scaled_by == options.loss_id,
          "fp16_apex: loss_id: the gradients are still scaled for loss {} (delay_unscale); got {}",
          entry->scaled_by, options.loss_id);
  tell_overflows();
  pass_.options = options;
  pass_.entries = named;
  if (does_nothing()) return;
  scaler.start(optimizers.at(0).device());
  pass_.scale = scaler.scale_tensor().clone();
  pass_.inverse = scaler.inverse_tensor().clone();
  for (Entry& entry : entries_) {
    if (entry.scaled_by < 0)
      pass_.stashes.emplace_back(entry);
    else if (entry.scaled_by == options.loss_id)
      bring_to_scale(entry, scaler);
  }
}

// Rescales gradients that an earlier pass left scaled, since the scale may have changed.
void ApexAmp::bring_to_scale(Entry& entry, const LossScaler& scaler) const {
  if (entry.generation == scaler.generation()) return;
  const auto gradients = entry.optimizer.gradients();
  scale_gradients(gradients, entry.inverse);
  scale_gradients(gradients, pass_.scale);
  entry.inverse = pass_.inverse;
  entry.generation = scaler.generation();
}

Tensor ApexAmp::scale(const Tensor& loss) {
  if (!properties_->enabled) return loss;
  if (does_nothing()) return cast_floating(loss, DType::f32);
  return this->loss(pass_.options.loss_id).scaler().scale(loss).loss;
}

void ApexAmp::count_reached() {
  for (Entry& entry : entries_) {
    if (entry.scaled_by >= 0 || entry.optimizer.parameters_with_grad().empty()) continue;
    if (std::ranges::find(pass_.entries, &entry) == pass_.entries.end())
      pass_.entries.push_back(&entry);
  }
}

// Returns one flag for all optimizers: an overflow in the gradients of one counts for the loss.
Tensor ApexAmp::unscale() {
  if (!pass_.inverse.defined()) return {};
  count_reached();
  if (pass_.options.delay_unscale) {
    const int64_t generation = loss(pass_.options.loss_id).scaler().generation();
    for (Entry* entry : pass_.entries) {
      entry->scaled_by = pass_.options.loss_id;
      entry->inverse = pass_.inverse;
      entry->generation = generation;
    }
    return {};
  }
  pass_.found = zeros({}, {DType::f32, pass_.inverse.device()});
  for (Entry* entry : pass_.entries) {
    widen_gradients(entry->optimizer);
    pass_.found.add_(unscale_gradients(entry->optimizer, pass_.inverse));
    entry->scaled_by = -1;
  }
  return pass_.found;
}

void ApexAmp::end_loss() {
  for (const Stash& stash : pass_.stashes) stash.add_back(pass_.scale);
  pass_.stashes.clear();
  const int id = pass_.options.loss_id;
  if (!pass_.found.defined() || pass_.options.delay_overflow_check) return;
  LossScaler& scaler = loss(id).scaler();
  scaler.update(pass_.found);
  if (!scaler.policy().skips) return;
  note_overflow(pass_);
  remember_overflow(id, pass_.found);
}

void ApexAmp::note_overflow(const LossPass& pass) {
  for (Entry* entry : pass.entries) booster::note_overflow(entry->skip, pass.found.clone());
}

Tensor ApexAmp::pending_inverse(const Optimizer& optimizer) const {
  for (const Entry& entry : entries_)
    if (entry.optimizer == optimizer && entry.scaled_by >= 0) return entry.inverse;
  return {};
}

void ApexAmp::unscale_now(const Optimizer& optimizer) {
  const Tensor inverse = pending_inverse(optimizer);
  if (!inverse.defined()) return;
  Entry& mine = entry(optimizer);
  widen_gradients(optimizer);
  const Tensor found = unscale_gradients(optimizer, inverse);
  if (loss(mine.scaled_by).scaler().policy().skips) booster::note_overflow(mine.skip, found);
  mine.scaled_by = -1;
}

void ApexAmp::abandon(const Optimizer& optimizer) {
  if (!properties_->enabled) return;
  Entry& mine = entry(optimizer);
  mine.scaled_by = -1;
  mine.skip = {};
}

Tensor ApexAmp::skip_of(const Optimizer& optimizer) {
  Entry& mine = entry(optimizer);
  check(mine.scaled_by < 0,
        "fp16_apex: step: the gradients are still scaled; want a loss without delay_unscale before "
        "the step");
  return mine.skip.defined() ? mine.skip.clone() : Tensor();
}

void ApexAmp::step(Optimizer& optimizer) {
  if (!properties_->enabled) return optimizer.step();
  const Tensor skip = skip_of(optimizer);
  entry(optimizer).skip = {};
  optimizer.step({.found_inf = skip.defined() ? static_cast<const float*>(skip.data()) : nullptr});
  forget_gradients_of_masters(optimizer);
}

PrecisionNumbers ApexAmp::state() const {
  PrecisionNumbers state;
  if (!properties_->enabled) return state;
  for (size_t i = 0; i < losses_.size(); ++i) {
    const LossScaleState now = losses_[i].scaler().state();
    state[fmt::format("loss_scaler{}.loss_scale", i)] = now.scale;
    state[fmt::format("loss_scaler{}.unskipped", i)] = static_cast<double>(now.good);
  }
  return state;
}

void ApexAmp::load(const PrecisionNumbers& state) {
  if (!properties_->enabled) return;
  std::vector<LossScaleState> loaded;
  for (size_t i = 0; i < losses_.size(); ++i) {
    const auto number = [&](const char* name) {
      const auto found = state.find(fmt::format("loss_scaler{}.{}", i, name));
      check(found != state.end(),
            "fp16_apex: load: loss_scaler{}.{} is missing; want the state of {} loss scalers", i,
            name, losses_.size());
      return found->second;
    };
    const double scale = number("loss_scale");
    check(is_usable_scale(scale) && static_cast<float>(scale) == scale,
          "fp16_apex: load: loss_scaler{}.loss_scale: got {}", i, scale);
    loaded.push_back(
        {.scale = scale, .good = saved_counter(state, fmt::format("loss_scaler{}.unskipped", i))});
  }
  for (size_t i = 0; i < losses_.size(); ++i) losses_[i].scaler().load(loaded[i]);
}

}  // namespace booster
