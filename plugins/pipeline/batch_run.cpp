#include "plugins/pipeline/batch_run.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"

namespace booster {

using Kind = PipelineAction::Kind;

namespace {

std::vector<Tensor> with_gradients(const Tensors& x) {
  std::vector<Tensor> all = x.all();
  std::erase_if(all, [](const Tensor& tensor) { return !tensor.requires_grad(); });
  return all;
}

}  // namespace

BatchRun::BatchRun(PipelineStages& pipeline, const MicroStep& step, const Tensors& input,
                   const Tensors& target, std::vector<int64_t> begins)
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

Tensors BatchRun::rows(const Tensors& batch, int microbatch) const {
  const auto i = static_cast<size_t>(microbatch);
  return batch.map([&](const Tensor& tensor) {
    return untracked::narrow(tensor, 0, begins_[i], begins_[i + 1] - begins_[i]);
  });
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
    const std::vector<Tensor> outputs = with_gradients(passage->second.output);
    if (!outputs.empty()) pipeline_.from_next_.expect(outputs);
    ++next_returning_;
  }
}

void BatchRun::forward(const PipelineAction& action) {
  const auto [kind, microbatch, chunk] = action;
  const int at = piece(chunk);
  const Tensors x = at == 0 ? rows(input_, microbatch) : pipeline_.from_previous_.take();
  if (at > 0) expect_activation();
  Tensors y = step_.forward_links(x, pipeline_.cut_[static_cast<size_t>(at)],
                                  pipeline_.cut_[static_cast<size_t>(at + 1)]);
  if (!is_last(chunk)) pipeline_.to_next_.send(y, x, message(microbatch, at));
  else if (on_tape_) y = loss_of(y, microbatch);
  else outputs_.push_back(y);
  if (!on_tape_) return;
  passages_[{microbatch, chunk}] = {x, y, {}};
  expect_gradients();
}

Tensor BatchRun::loss_of(const Tensors& output, int microbatch) {
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
  const Tensors input = std::exchange(passage.input, {}),
                output = std::exchange(passage.output, {});
  {
    std::optional<DeferredGradients::Scope> apart;
    if (action.kind == Kind::backward_input) apart.emplace(passage.later, input);
    if (is_last(action.chunk)) booster::backward(step_.scale(output));
    else if (output.requires_grad())
      booster::backward(with_gradients(output), {.grads = pipeline_.from_next_.take()});
  }
  if (piece(action.chunk) > 0) send_gradients(input);
  if (action.kind == Kind::backward) passages_.erase(key);
  expect_gradients();
}

// Sends zeros for an input that no result depends on.
void BatchRun::send_gradients(const Tensors& input) {
  for (const Tensor& one : with_gradients(input)) {
    const Tensor gradient = one.grad();
    if (one.numel() > 0)
      pipeline_.to_previous_.send(gradient.defined() ? gradient : zeros_like(one));
  }
}

}  // namespace booster
