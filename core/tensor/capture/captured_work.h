// Work of a GPU that is recorded once and then replayed as a whole, without the host's part: what
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

// A shared handle, empty until capture() gives it. Belongs to the thread that captured it, whose
// default generator its random numbers come from.
class CapturedWork {
 public:
  // Queues the work behind what the device was given before, as kernels are: does not wait. It
  // reads its inputs where they were at the capture, and writes the results, the gradients and
  // whatever it changes where they were then; their versions are raised. Random numbers are those
  // that the work would draw if it ran plainly. An index out of range raises its error when the
  // thread next reads numbers of the GPU. Error on another thread, and if the handle is empty.
  void replay();
  // What the work returned. Their numbers come with the first replay.
  const std::vector<Tensor>& results() const;

 private:
  friend CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work);
  struct Body;
  Body& body() const;
  std::shared_ptr<Body> body_;
};

// Calls `work` once, which computes nothing then, and records what it queues for the device. It
// must have run plainly on this thread before, and queue from this thread alone. Its memory is kept
// until the last handle goes, and so is that of all tensors that it uses. Error on a CPU, and for
// what cannot be recorded (reading numbers, tensors of the CPU, booster.backward); then nothing is
// left of the capture, but gradients that the work gave to leaves hold no numbers.
CapturedWork capture(Device device, const std::function<std::vector<Tensor>()>& work);

}  // namespace booster
