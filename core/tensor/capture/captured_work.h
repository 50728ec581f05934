// GPU work that is recorded once and then replayed as a whole, without the host's part, as
// torch.cuda.CUDAGraph does. docs/cuda.md, "Capture and replay", says what can be captured.
//
//   Tensor x = ..., loss;           // on cuda:0, with the batch's shape
//   const auto work = [&] {
//     model.zero_grad();
//     loss = cross_entropy(model(x), labels);
//     loss.backward();
//     return std::vector<Tensor>{loss};
//   };
//   work();                         // once as it is, which loads and chooses what it needs
//   CapturedWork captured = capture({DeviceType::cuda, 0}, work);
//   x.copy_(batch);
//   captured.replay();              // loss and the gradients are the batch's
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <memory>
#include <vector>

namespace booster {

// A shared handle, empty until capture() returns one. Belongs to the thread that captured it, and
// draws its random numbers from that thread's default generator.
class CapturedWork {
 public:
  // Queues the work after all work that the device already has, as kernels are, without waiting. It
  // reads its inputs at their addresses during the capture, and writes the results, the gradients
  // and whatever it changes to their addresses then. Raises their versions. The random numbers are
  // the ones that a plain run would draw. For an index out of range, the thread's next read from
  // the GPU throws. Error on another thread, and if the handle is empty.
  void replay();
  // Returns the tensors that the work returned. Their values arrive with the first replay.
  const std::vector<Tensor>& results() const;

 private:
  friend CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work);
  struct Body;
  Body& body() const;
  std::shared_ptr<Body> body_;
};

// Calls `work` once, which computes nothing then, and records what it queues for the device. The
// work must have run plainly on this thread before, and must queue from this thread alone. Its
// memory, and the memory of all tensors that it uses, is kept until the last handle goes. Error on
// a CPU, and for what cannot be recorded: reading values, tensors of the CPU, booster.backward.
// After an error nothing of the capture remains, but gradients that the work gave to leaves hold no
// values.
CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work);

}  // namespace booster
