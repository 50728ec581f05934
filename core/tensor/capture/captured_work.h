// GPU work that is recorded once and then replayed as a whole, without the host's part, like
// torch.cuda.CUDAGraph. docs/cuda.md, "Capture and replay", lists the work that can be captured.
//
//   Tensor x = ..., loss;           // on cuda:0, with the batch's shape
//   const auto work = [&] {
//     model.zero_grad();
//     loss = cross_entropy(model(x), labels);
//     loss.backward();
//     return std::vector<Tensor>{loss};
//   };
//   work();                         // a plain run first, which loads and chooses kernels
//   CapturedWork captured = capture({DeviceType::cuda, 0}, work);
//   x.copy_(batch);
//   captured.replay();              // loss and the gradients are the batch's
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <memory>
#include <vector>

namespace booster {

// A shared handle, empty unless it comes from capture(). Belongs to the thread that captured it,
// and draws random numbers from that thread's default generator.
class CapturedWork {
 public:
  // Queues the work after all work that the device already has, without waiting. The work reads its
  // inputs, and writes results, gradients and other changes, at their addresses during the capture.
  // Raises their versions. Draws the random numbers of a plain run. For an index out of
  // range, the thread's next read from the GPU throws. Throws on another thread, and if the handle
  // is empty.
  void replay();
  // Returns the tensors that the work returned. Their values arrive with the first replay.
  const std::vector<Tensor>& results() const;

 private:
  friend CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work);
  struct Body;
  Body& body() const;
  std::shared_ptr<Body> body_;
};

// Calls `work` once without computing, and records the work that it queues for the device. The work
// must have run plainly on this thread before, and must queue only from this thread. The capture
// keeps its memory, and all tensors that it uses, until the last handle is destroyed. Throws on a
// CPU, and for work that cannot be recorded: reading values, tensors of the CPU, booster.backward.
// An error leaves nothing of the capture, but gradients that the work gave to leaves hold no
// values.
CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work);

}  // namespace booster
