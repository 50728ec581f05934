#include "plugins/pipeline/stage_link.h"

#include "core/autograd/node.h"
#include "core/autograd/tape.h"

#include <fmt/format.h>

namespace booster {
namespace {

// The header's order: batch_rows, rows, microbatch, piece, on_tape; wants_gradient, changed, dtype,
// dimensions, sizes.
constexpr int message_size = 5, header_size = message_size + 4 + kernels::max_dims;

struct Header {
  StageMessage message;
  bool wants_gradient = false, changed = false;
  ActivationForm form;
};

Tensor written(const Header& header) {
  const auto& [batch_rows, rows, microbatch, piece, on_tape] = header.message;
  const Shape& shape = header.form.shape;
  std::vector<int64_t> numbers = {batch_rows,
                                  rows,
                                  microbatch,
                                  piece,
                                  on_tape,
                                  header.wants_gradient,
                                  header.changed,
                                  static_cast<int64_t>(header.form.dtype),
                                  shape.ndim()};
  for (int i = 0; i < shape.ndim(); ++i) numbers.push_back(shape[i]);
  numbers.resize(header_size);
  return from_vector(numbers, {header_size});
}

Header read(const Tensor& written) {
  const auto numbers = written.to_vector<int64_t>();
  Header header{{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]},
                numbers[5] != 0,
                numbers[6] != 0,
                {static_cast<DType>(numbers[7]), {}}};
  for (int64_t i = 0; i < numbers[8]; ++i)
    header.form.shape.push_back(numbers[static_cast<size_t>(message_size + 4 + i)]);
  return header;
}

std::string text_of(const StageMessage& message) {
  return fmt::format("microbatch {} ({} rows) of a batch of {} rows, {} gradients, from piece {}",
                     message.microbatch, message.rows, message.batch_rows,
                     message.on_tape ? "with" : "without", message.piece);
}

bool are_same(const StageMessage& a, const StageMessage& b) {
  return a.batch_rows == b.batch_rows && a.rows == b.rows && a.microbatch == b.microbatch &&
         a.piece == b.piece && a.on_tape == b.on_tape;
}

Tensor room_for(const ActivationForm& form, Device device) {
  return empty(form.shape, {form.dtype, device});
}

}  // namespace

void Outbox::send(const Tensor& tensor) {
  while (!sent_.empty() && sent_.front().is_done()) {
    sent_.front().wait();
    sent_.pop_front();
  }
  sent_.push_back(group_.send_async(untracked::contiguous(tensor.detach()), to_));
}

void Outbox::finish() {
  for (; !sent_.empty(); sent_.pop_front()) sent_.front().wait();
}

void ActivationSender::send(const Tensor& activation, const StageMessage& message) {
  const ActivationForm form = {activation.dtype(), activation.shape()};
  const auto [known, is_new] = known_.try_emplace({message.piece, message.rows}, form);
  const bool changed = is_new || !(known->second == form);
  outbox_.send(written({message, activation.requires_grad(), changed, form}));
  if (changed && !is_new)
    outbox_.send(zeros(known->second.shape, {known->second.dtype, activation.device()}));
  outbox_.send(activation);
  known->second = form;
}

void ActivationReceiver::expect(const StageMessage& message) {
  check(!expected_, "pipeline: an activation is requested before the last one was taken");
  Expected next{message, empty({header_size}, {.dtype = DType::i64}), {}, {}, {}};
  next.header_work = group_.receive_async(next.header, from_);
  if (const auto known = known_.find({message.piece, message.rows}); known != known_.end()) {
    next.activation = room_for(known->second, device_);
    next.activation_work = group_.receive_async(next.activation, from_);
  }
  expected_ = std::move(next);
}

Tensor ActivationReceiver::take() {
  check(expected_.has_value(), "pipeline: no activation was requested");
  Expected next = *std::exchange(expected_, std::nullopt);
  next.header_work.synchronize();
  const Header header = read(next.header);
  if (!are_same(header.message, next.message))
    fail(
        "pipeline: stages run different work; the previous stage sent {}, but this one expects {}; "
        "want the same batches in the same order on all ranks of a pipeline",
        text_of(header.message), text_of(next.message));
  next.activation_work.wait();
  if (header.changed) {
    next.activation = room_for(header.form, device_);
    group_.receive(next.activation, from_);
    known_[{next.message.piece, next.message.rows}] = header.form;
  }
  if (header.wants_gradient) next.activation.requires_grad_();
  mark_made_by_op(next.activation, true);
  return next.activation;
}

void GradientReceiver::expect(const Tensor& activation) {
  const Tensor room = room_for({activation.dtype(), activation.shape()}, activation.device());
  const Work work = group_.receive_async(room, from_);
  expected_.emplace_back(room, work);
}

Tensor GradientReceiver::take() {
  check(!expected_.empty(), "pipeline: no gradient was requested");
  const auto [gradient, work] = expected_.front();
  expected_.pop_front();
  work.wait();
  return gradient;
}

}  // namespace booster
