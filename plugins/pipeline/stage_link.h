// What goes from one stage of a pipeline to the next, and the gradients that come back: each
// direction between two stages has a group of its own, so that nothing waits behind what goes the
// other way. Sends return at once, and the next thing to be received is asked for ahead.
// For one thread.
//
// Ahead of every tensor goes a header: which it is, its dtype, shape, and whether it wants a
// gradient. Both sides remember the shape that a number of rows had the last time. While it stays,
// the receiver has asked for the tensor before the header is there, and nobody waits for anybody;
// when it changes, what the receiver asked for is filled with zeros, and the tensor follows.
// Gradients have no header: they look like what they are of.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace booster {

// Which tensor it is: the two sides of a link compare them.
struct StageMessage {
  int64_t batch_rows = 0, rows = 0;  // of the batch, and of the microbatch
  int64_t microbatch = 0;
  int64_t piece = 0;                 // that gave it
  int64_t on_tape = 0;               // 1: the pass has gradients
};

// What an activation looks like.
struct ActivationForm {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const ActivationForm&, const ActivationForm&) = default;
};

// Sends in progress. What is sent must not change before it is done.
class Outbox {
 public:
  Outbox() = default;
  Outbox(Group group, int to) : group_(std::move(group)), to_(to) {}
  // Errors of earlier sends are thrown here.
  void send(const Tensor& tensor);
  // Waits for all.
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
  // Activations come to `device`.
  ActivationReceiver(Group group, int from, Device device)
      : group_(std::move(group)), from_(from), device_(device) {}
  // Asks for the next one. The last one must have been taken: its form may have changed.
  void expect(const StageMessage& message);
  // The one that was asked for: a leaf, which requires a gradient where the sender's did. Error
  // where the sender sent another.
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
  // Asks for the gradient of `activation`.
  void expect(const Tensor& activation);
  // How many are asked for and not yet taken.
  size_t waiting() const { return expected_.size(); }
  // The first of them.
  Tensor take();

 private:
  Group group_;
  int from_ = 0;
  std::deque<std::pair<Tensor, Work>> expected_;
};

}  // namespace booster
