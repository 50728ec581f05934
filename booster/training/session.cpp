#include "booster/training/session.h"

#include "booster/training/backward_pass.h"
#include "booster/training/boosted.h"
#include "booster/training/frozen_statistics.h"
#include "core/autograd/op_policy.h"
#include "core/tensor/random/data_place.h"
#include "core/tensor/tensor.h"
#include "kernels/host/recording.h"
#include "platform/trace.h"
#include "platform/warn.h"

#include <algorithm>
#include <utility>

namespace booster {

namespace {

// Returns true if any part is in training mode, because a program may set a part's mode separately.
bool has_part_in_training(const Model& model) {
  bool any = false;
  model->apply([&](Module& module) { any |= module.training(); });
  return any;
}

}  // namespace

Session::Session(std::shared_ptr<Precision> precision, std::shared_ptr<Plugin> plugin,
                 std::shared_ptr<Iteration> iteration, const Model& model,
                 const Optimizer& optimizer)
    : precision(std::move(precision)),
      plugin(std::move(plugin)),
      iteration(std::move(iteration)),
      model(model),
      optimizer(optimizer),
      first_precision_state(this->precision->state()),
      data_place(static_cast<uint64_t>(this->plugin->mesh().place("data"))) {}

Session::~Session() {
  try {
    pass_on_all_notes();
  } catch (const Error&) {  // the device is gone, with its values
  }
}

Tensors Session::forward(const Model& part, const Tensors& x) {
  const OneThread::Scope alone(iteration->thread, "model");
  return plugin->forward(x, passes(part));
}

MicroStep Session::passes(const Model& part) {
  MicroStep step;
  step.trains = has_part_in_training(part);
  step.moves_buffers_alone = step.trains && !grad_enabled() && iteration->no_sync == 0;
  step.forward_links = [=, trains = step.trains, this](const Tensors& x, int first, int last) {
    return pass(part, x, {first, last, trains});
  };
  step.forward = [links = step.forward_links, count = part->link_count()](const Tensors& x) {
    return links(x, 0, count);
  };
  return step;
}

// Runs links of the model. Casts only at the model's ends, not where a pipeline cuts it. Ranks
// share a strategy's values from a forward pass only in training, because one rank may evaluate
// alone.
Tensors Session::pass(const Model& part, const Tensors& x, const LinkRun& run) {
  const kernels::TraceScope span("forward", kernels::SpanKind::phase);
  const GradientKeeper::Scope mine;
  const DataPlace draws(data_place);
  PassScope scope = plugin->begin({.pass = Pass::forward,
                                   .sync = iteration->no_sync == 0,
                                   .first_link = run.first,
                                   .trains = run.trains});
  if (watcher) watcher->forward_begins(x);
  const PolicyScope numbers(precision->policy(x.device()));
  const auto cast_input = [&](const Tensor& one) { return precision->cast_input(one); };
  const auto cast_output = [&](const Tensor& one) { return precision->cast_output(one); };
  Tensors y = part->run_links(run.first == 0 ? x.map(cast_input) : x, run.first, run.last);
  if (run.last == part->link_count()) y = y.map(cast_output);
  scope.end();
  if (run.trains && y.requires_grad()) share(precision->end_forward());
  return y;
}

Tensor Session::run(const Model& part, const Criterion& criterion, const Tensors& input,
                    const Tensors& target) {
  const OneThread::Scope alone(iteration->thread, "model");
  const GradientKeeper::Scope mine;
  BackwardPass backward({this}, {});
  MicroStep step = passes(part);
  JoinedMean* joined = iteration->joined.get();
  step.loss = [&](const Tensors& y, const Tensors& wanted) {
    const Tensor loss = criterion(y, wanted);
    if (!joined) return loss;
    const double share = static_cast<double>(wanted.numel()) / static_cast<double>(target.numel());
    return joined->weighted_part(loss, criterion.divisor(wanted), share);
  };
  step.scale = [&](const Tensor& mean_loss) { return backward.root(mean_loss); };
  if (joined) joined->begin_batch(criterion.divisor(target), target.numel());
  const Tensor loss = plugin->run(input, target, step);
  backward.end();
  return joined ? joined->end_batch(loss) : loss;
}

void Session::sync_grads(const char* call) {
  check_backward_ended(call);
  plugin->sync_grads(optimizer);
  if (iteration->joined) iteration->joined->settle(optimizer);
}

void Session::share(SharedNumbers shared) {
  if (shared.numbers.defined()) plugin->agree(shared.numbers, shared.among);
  if (shared.agreed) shared.agreed();
}

void Session::settle(const char* call) {
  kernels::refuse_to_record(call, "because a replay would omit the host's part of a step",
                            "only the boosted model's forward, or an unboosted model");
  iteration->loans->settle();
}

void Session::check_backward_ended(const char* call) const {
  check(std::ranges::find(iteration->half_done, optimizer) == iteration->half_done.end(),
        "{}: a backward pass failed and left some of its gradients, different ones on each rank; "
        "want zero_grad first",
        call);
}

void Session::zero_grad() {
  const OneThread::Scope alone(iteration->thread, "optimizer");
  const GradientKeeper::Scope mine;
  settle("optimizer.zero_grad");
  std::erase(iteration->half_done, optimizer);
  iteration->loans->close(optimizer);
  optimizer.zero_grad();
  precision->abandon(optimizer);
  if (iteration->joined) iteration->joined->forget();
  leave_iteration(true);
}

void Session::pass_on_notes() {
  for (NoteTaker* taker :
       {static_cast<NoteTaker*>(precision.get()), static_cast<NoteTaker*>(plugin.get())})
    for (const std::string& note : taker->take_notes())
      if (plugin->group().rank() == 0) warn(note);
}

void Session::look_for_skips(bool at_end) {
  if (!(at_end || skipped.is_due()) || plugin->group().rank() != 0) return;
  std::string text = skipped.look(*precision, optimizer, at_end);
  if (!text.empty()) precision->add_note(std::move(text));
  if (iteration->refusal_told) return;
  const std::string refusal = precision->refusal();
  iteration->refusal_told = !refusal.empty();
  if (!refusal.empty()) precision->add_note(std::string(precision->name()) + ": " + refusal);
}

void Session::look_for_frozen_statistics() {
  constexpr int64_t interval = 64;
  if (iteration->steps++ % interval != 0 || iteration->statistics_noted) return;
  std::string text = frozen_statistics(model.module());
  iteration->statistics_noted = !text.empty();
  if (!text.empty()) precision->add_note(std::move(text));
}

void Session::pass_on_all_notes() {
  precision->finish_notes();
  look_for_skips(true);
  pass_on_notes();
}

}  // namespace booster
