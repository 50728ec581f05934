#include "plugins/pipeline/batch_run.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"

namespace booster {

using Kind = PipelineAction::Kind;

BatchRun::BatchRun(PipelineStages& pipeline, const MicroStep& step, const Tensor& input,
                   const Tensor& target, std::vector<int64_t> begins)
    : pipeline_(pipeline),
      step_(step),
      input_(input),
      target_(target),
      begins_(std::move(begins)),
      on_tape_(grad_enabled()) {}

void BatchRun::run(const PipelineSchedule& schedule) {
  const auto& actions = schedule[static_cast<size_t>(pipeline_.stage())];
  for (const auto& [kind, microbatch, chunk] : actions) {
    if (kind == Kind::forward && piece(chunk) > 0) incoming_.emplace_back(microbatch, chunk);
    if ((kind == Kind::backward || kind == Kind::backward_input) && !is_last(chunk))
      returning_.emplace_back(microbatch, chunk);
  }
  expect_activation();
  for (const PipelineAction& action : actions) {
    if (action.kind == Kind::forward) forward(action);
    else if (action.kind != Kind::backward_weight) backward(action);
    else {
      const auto passage = passages_.find({action.microbatch, action.chunk});
      passage->second.later.run();
      passages_.erase(passage);
    }
  }
  pipeline_.to_next_.finish();
  pipeline_.to_previous_.finish();
}

StageMessage BatchRun::message(int microbatch, int from_piece) const {
  const auto i = static_cast<size_t>(microbatch);
  return {begins_.back(), begins_[i + 1] - begins_[i], microbatch, from_piece, on_tape_};
}

Tensor BatchRun::rows(const Tensor& batch, int microbatch) const {
  const auto i = static_cast<size_t>(microbatch);
  return untracked::narrow(batch, 0, begins_[i], begins_[i + 1] - begins_[i]);
}

void BatchRun::expect_activation() {
  if (next_incoming_ == incoming_.size()) return;
  const auto [microbatch, chunk] = incoming_[next_incoming_++];
  pipeline_.from_previous_.expect(message(microbatch, piece(chunk) - 1));
}

// Requests the gradients of this stage's outputs, whose form forward has shown. Outputs that need
// no gradient get no message.
void BatchRun::expect_gradients() {
  constexpr size_t ahead = 2;
  while (pipeline_.from_next_.waiting() < ahead && next_returning_ < returning_.size()) {
    const auto passage = passages_.find(returning_[next_returning_]);
    if (passage == passages_.end()) return;
    const Tensor& output = passage->second.output;
    if (output.requires_grad()) pipeline_.from_next_.expect(output);
    ++next_returning_;
  }
}

void BatchRun::forward(const PipelineAction& action) {
  const auto [kind, microbatch, chunk] = action;
  const int at = piece(chunk);
  const Tensor x = at == 0 ? rows(input_, microbatch) : pipeline_.from_previous_.take();
  if (at > 0) expect_activation();
  Tensor y = step_.forward_links(x, pipeline_.cut_[static_cast<size_t>(at)],
                                 pipeline_.cut_[static_cast<size_t>(at + 1)]);
  if (!is_last(chunk)) pipeline_.to_next_.send(y, message(microbatch, at));
  else if (on_tape_) y = loss_of(y, microbatch);
  else outputs_.push_back(y);
  if (!on_tape_) return;
  passages_[{microbatch, chunk}] = {x, y, {}};
  expect_gradients();
}

Tensor BatchRun::loss_of(const Tensor& output, int microbatch) {
  Tensor loss = step_.loss(output, rows(target_, microbatch));
  check(loss.numel() == 1, "pipeline: the loss must have one element; got shape {}", loss.shape());
  const auto i = static_cast<size_t>(microbatch);
  if (begins_.size() > 2)
    loss = loss * (static_cast<double>(begins_[i + 1] - begins_[i]) /
                   static_cast<double>(begins_.back()));
  if (loss_.defined()) loss_.add_(loss.detach());
  else loss_ = untracked::clone(loss.detach());
  return loss;
}

void BatchRun::backward(const PipelineAction& action) {
  const Key key = {action.microbatch, action.chunk};
  Passage& passage = passages_.at(key);
  const Tensor input = std::exchange(passage.input, {}),
               output = std::exchange(passage.output, {});
  {
    std::optional<DeferredGradients::Scope> apart;
    if (action.kind == Kind::backward_input) apart.emplace(passage.later, input);
    if (is_last(action.chunk)) booster::backward(step_.scale(output));
    else if (output.requires_grad())
      booster::backward(output, {.grad = pipeline_.from_next_.take()});
  }
  if (piece(action.chunk) > 0 && input.requires_grad()) send_gradient(input);
  if (action.kind == Kind::backward) passages_.erase(key);
  expect_gradients();
}

// Sends zeros for an input that no result depends on.
void BatchRun::send_gradient(const Tensor& input) {
  const Tensor gradient = input.grad();
  pipeline_.to_previous_.send(gradient.defined() ? gradient : zeros_like(input));
}

}  // namespace booster
