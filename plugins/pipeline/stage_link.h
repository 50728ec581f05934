// Transfers activations from one stage of a pipeline to the next, and gradients back. Each
// direction between two stages has its own group, so that neither waits for the other. Sends return
// immediately, and each side requests its next tensor ahead. For one thread.
//
// An activation is one tensor or several with names. A header with its identity precedes it. Both
// sides remember its last form for each number of rows: names, dtypes, shapes, and which tensors
// need a gradient. While the form stays the same, the receiver requests the tensors before the
// header arrives, so neither side waits. If it changes, the sender fills the requested tensors with
// zeros, and then sends the form and the real ones. Gradients need no header, because they have
// their activation's form. Tensors without elements are not sent.
#pragma once

#include "core/tensor/tensors.h"
#include "parallel/groups/group.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace booster {

// Identifies a tensor: both sides of a link compare it.
struct StageMessage {
  int64_t batch_rows = 0, rows = 0;  // of the batch, and of the microbatch
  int64_t microbatch = 0;
  int64_t piece = 0;                 // the piece that made it
  int64_t on_tape = 0;               // 1: the pass has gradients
};

// The form of one tensor of an activation.
struct ActivationForm {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  bool wants_gradient = false;
  bool made_by_op = true;  // see mark_made_by_op (core/autograd/node.h)
  friend bool operator==(const ActivationForm&, const ActivationForm&) = default;
};
using ActivationForms = std::vector<ActivationForm>;
ActivationForms forms_of(const Tensors& x);
// Encode forms as numbers, and decode them.
std::vector<int64_t> numbers_of(const ActivationForms& forms);
ActivationForms forms_of(const std::vector<int64_t>& numbers);
// Returns uninitialised tensors of these forms.
Tensors room_for(const ActivationForms& forms, Device device);

// The forms by piece, rows, and whether the pass has gradients.
using KnownForms = std::map<std::tuple<int64_t, int64_t, int64_t>, ActivationForms>;

// Sends in progress. A tensor must not change until its send is done.
class Outbox {
 public:
  Outbox() = default;
  Outbox(Group group, int to) : group_(std::move(group)), to_(to) {}
  // Throws errors of earlier sends.
  void send(const Tensor& tensor);
  // Waits for all sends.
  void finish();

 private:
  Group group_;
  int to_ = 0;
  std::deque<Work> sent_;
};

class ActivationSender {
 public:
  ActivationSender() = default;
  ActivationSender(Group group, int to) : outbox_(std::move(group), to) {}
  // `input` is the input of the piece that returned the activation.
  void send(const Tensors& activation, const Tensors& input, const StageMessage& message);
  void finish() { outbox_.finish(); }

 private:
  Outbox outbox_;
  KnownForms known_;
};

class ActivationReceiver {
 public:
  ActivationReceiver() = default;
  // Activations arrive on `device`.
  ActivationReceiver(Group group, int from, Device device)
      : group_(std::move(group)), from_(from), device_(device) {}
  // Requests the next activation. Take the previous one first, since its form may have changed.
  void expect(const StageMessage& message);
  // Returns the requested activation. Its tensors are leaves, which require a gradient if the
  // sender's do. Throws if the sender sent a different one.
  Tensors take();

 private:
  struct Expected {
    StageMessage message;
    Tensor header;
    Work header_work;
    Tensors activation;
    std::vector<Work> works;  // of the activation
  };
  Group group_;
  int from_ = 0;
  Device device_;
  std::optional<Expected> expected_;
  KnownForms known_;
};

class GradientReceiver {
 public:
  GradientReceiver() = default;
  GradientReceiver(Group group, int from) : group_(std::move(group)), from_(from) {}
  // Requests the gradients of these tensors of an activation.
  void expect(const std::vector<Tensor>& activation);
  // Returns the number of activations whose gradients are requested and not yet taken.
  size_t waiting() const { return expected_.size(); }
  // Returns the gradients of the first of them.
  std::vector<Tensor> take();

 private:
  Group group_;
  int from_ = 0;
  std::deque<std::vector<std::pair<Tensor, Work>>> expected_;
};

}  // namespace booster
