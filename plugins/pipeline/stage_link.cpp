#include "plugins/pipeline/stage_link.h"

#include "core/autograd/node.h"
#include "core/autograd/tape.h"

#include <fmt/format.h>

namespace booster {
namespace {

// The header's order: batch_rows, rows, microbatch, piece, on_tape; 1 if the form has changed, and
// the number of its numbers.
constexpr int message_size = 5, header_size = message_size + 2;

struct Header {
  StageMessage message;
  bool changed = false;
  int64_t form_size = 0;
};

Tensor written(const Header& header) {
  const auto& [batch_rows, rows, microbatch, piece, on_tape] = header.message;
  const std::vector<int64_t> numbers = {batch_rows, rows,           microbatch,      piece,
                                        on_tape,    header.changed, header.form_size};
  return from_vector(numbers, {header_size});
}

Header read(const Tensor& written) {
  const auto numbers = written.to_vector<int64_t>();
  return {{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]},
          numbers[5] != 0,
          numbers[6]};
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

std::tuple<int64_t, int64_t, int64_t> key_of(const StageMessage& message) {
  return {message.piece, message.rows, message.on_tape};
}

}  // namespace

ActivationForms forms_of(const Tensors& x) {
  ActivationForms forms;
  for (const auto& [name, tensor] : x)
    forms.push_back({.name = name,
                     .dtype = tensor.dtype(),
                     .shape = tensor.shape(),
                     .wants_gradient = tensor.requires_grad()});
  return forms;
}

std::vector<int64_t> numbers_of(const ActivationForms& forms) {
  std::vector<int64_t> numbers = {static_cast<int64_t>(forms.size())};
  for (const auto& [name, dtype, shape, wants_gradient, made_by_op] : forms) {
    numbers.push_back(static_cast<int64_t>(name.size()));
    for (const char letter : name) numbers.push_back(static_cast<uint8_t>(letter));
    for (const int64_t each : {static_cast<int64_t>(dtype), int64_t{wants_gradient},
                               int64_t{made_by_op}, int64_t{shape.ndim()}})
      numbers.push_back(each);
    numbers.insert(numbers.end(), shape.begin(), shape.end());
  }
  return numbers;
}

ActivationForms forms_of(const std::vector<int64_t>& numbers) {
  size_t at = 0;
  const auto next = [&] { return numbers.at(at++); };
  ActivationForms forms(static_cast<size_t>(next()));
  for (ActivationForm& form : forms) {
    form.name.resize(static_cast<size_t>(next()));
    for (char& letter : form.name) letter = static_cast<char>(next());
    form.dtype = static_cast<DType>(next());
    form.wants_gradient = next() != 0;
    form.made_by_op = next() != 0;
    for (int64_t left = next(); left > 0; --left) form.shape.push_back(next());
  }
  return forms;
}

Tensors room_for(const ActivationForms& forms, Device device) {
  std::vector<NamedTensor> all;
  for (const ActivationForm& form : forms)
    all.push_back({form.name, empty(form.shape, {form.dtype, device})});
  return Tensors(std::move(all));
}

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

void ActivationSender::send(const Tensors& activation, const Tensors& input,
                            const StageMessage& message) {
  ActivationForms forms = forms_of(activation);
  auto form = forms.begin();
  for (const auto& [name, tensor] : activation) {
    for (const auto& [input_name, given] : input)
      if (given.same_body(tensor)) form->made_by_op = was_made_by_op(tensor);
    ++form;
  }
  const auto [known, is_new] = known_.try_emplace(key_of(message), forms);
  const bool changed = is_new || known->second != forms;
  const std::vector<int64_t> numbers = changed ? numbers_of(forms) : std::vector<int64_t>();
  const auto size = static_cast<int64_t>(numbers.size());
  outbox_.send(written({message, changed, size}));
  if (changed && !is_new)
    for (const auto& [name, room] : room_for(known->second, activation.device()))
      if (room.numel() > 0) outbox_.send(zeros_like(room));
  if (changed) outbox_.send(from_vector(numbers, {size}));
  for (const auto& [name, tensor] : activation)
    if (tensor.numel() > 0) outbox_.send(tensor);
  known->second = std::move(forms);
}

void ActivationReceiver::expect(const StageMessage& message) {
  check(!expected_, "pipeline: an activation is requested before the last one was taken");
  Expected next{message, empty({header_size}, {.dtype = DType::i64}), {}, {}, {}};
  next.header_work = group_.receive_async(next.header, from_);
  if (const auto known = known_.find(key_of(message)); known != known_.end()) {
    next.activation = room_for(known->second, device_);
    for (const auto& [name, room] : next.activation)
      if (room.numel() > 0) next.works.push_back(group_.receive_async(room, from_));
  }
  expected_ = std::move(next);
}

Tensors ActivationReceiver::take() {
  check(expected_.has_value(), "pipeline: no activation was requested");
  Expected next = *std::exchange(expected_, std::nullopt);
  next.header_work.synchronize();
  const Header header = read(next.header);
  if (!are_same(header.message, next.message))
    fail(
        "pipeline: stages run different work; the previous stage sent {}, but this one expects {}; "
        "want the same batches in the same order on all ranks of a pipeline",
        text_of(header.message), text_of(next.message));
  for (const Work& work : next.works) work.wait();
  ActivationForms& known = known_[key_of(next.message)];
  if (header.changed) {
    const Tensor numbers = empty({header.form_size}, {.dtype = DType::i64});
    group_.receive_async(numbers, from_).synchronize();
    known = forms_of(numbers.to_vector<int64_t>());
    next.activation = room_for(known, device_);
    for (const auto& [name, room] : next.activation)
      if (room.numel() > 0) group_.receive(room, from_);
  }
  auto form = known.begin();
  for (Tensor tensor : next.activation.all()) {
    if (form->wants_gradient) tensor.requires_grad_();
    mark_made_by_op(tensor, form->made_by_op);
    ++form;
  }
  return next.activation;
}

void GradientReceiver::expect(const std::vector<Tensor>& activation) {
  auto& gradients = expected_.emplace_back();
  for (const Tensor& one : activation) {
    const Tensor room = empty(one.shape(), {one.dtype(), one.device()});
    gradients.emplace_back(room, room.numel() > 0 ? group_.receive_async(room, from_) : Work());
  }
}

std::vector<Tensor> GradientReceiver::take() {
  check(!expected_.empty(), "pipeline: no gradient was requested");
  const auto requested = std::move(expected_.front());
  expected_.pop_front();
  std::vector<Tensor> gradients;
  for (const auto& [gradient, work] : requested) {
    work.wait();
    gradients.push_back(gradient);
  }
  return gradients;
}

}  // namespace booster
