// Transfers activations from one stage of a pipeline to the next, and gradients back. Each
// direction between two stages has its own group, so that neither waits for the other. Sends return
// immediately, and each side requests its next tensor ahead. For one thread.
//
// A header precedes each activation. It holds the activation's identity, dtype and shape, and
// whether it needs a gradient. Both sides remember the last shape for each number of rows. While
// the shape stays the same, the receiver requests the tensor before the header arrives, so neither
// side waits. If it changes, the sender fills the requested tensor with zeros and then sends the
// real one. Gradients need no header, because they have their activation's form.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace booster {

// Identifies a tensor: both sides of a link compare it.
struct StageMessage {
  int64_t batch_rows = 0, rows = 0;  // of the batch, and of the microbatch
  int64_t microbatch = 0;
  int64_t piece = 0;                 // the piece that made it
  int64_t on_tape = 0;               // 1: the pass has gradients
};

// The form of an activation.
struct ActivationForm {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const ActivationForm&, const ActivationForm&) = default;
};

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
  void send(const Tensor& activation, const StageMessage& message);
  void finish() { outbox_.finish(); }

 private:
  Outbox outbox_;
  std::map<std::pair<int64_t, int64_t>, ActivationForm> known_;  // by piece and rows
};

class ActivationReceiver {
 public:
  ActivationReceiver() = default;
  // Activations arrive on `device`.
  ActivationReceiver(Group group, int from, Device device)
      : group_(std::move(group)), from_(from), device_(device) {}
  // Requests the next activation. Take the previous one first, since its form may have changed.
  void expect(const StageMessage& message);
  // Returns the requested activation as a leaf. It requires a gradient if the sender's activation
  // does. Throws if the sender sent a different one.
  Tensor take();

 private:
  struct Expected {
    StageMessage message;
    Tensor header, activation;
    Work header_work, activation_work;
  };
  Group group_;
  int from_ = 0;
  Device device_;
  std::optional<Expected> expected_;
  std::map<std::pair<int64_t, int64_t>, ActivationForm> known_;
};

class GradientReceiver {
 public:
  GradientReceiver() = default;
  GradientReceiver(Group group, int from) : group_(std::move(group)), from_(from) {}
  // Requests the gradient of `activation`.
  void expect(const Tensor& activation);
  // Returns the number of gradients requested and not yet taken.
  size_t waiting() const { return expected_.size(); }
  // Returns the first of them.
  Tensor take();

 private:
  Group group_;
  int from_ = 0;
  std::deque<std::pair<Tensor, Work>> expected_;
};

}  // namespace booster
