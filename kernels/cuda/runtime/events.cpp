#include "kernels/cuda/runtime/events.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"

namespace booster::kernels::cuda {
namespace {

class StreamEvent final : public Event {
 public:
  StreamEvent(int device, cudaStream_t stream) : device_(device) {
    CUDA_CALL(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    const cudaError_t status = cudaEventRecord(event_, stream);
    if (status != cudaSuccess) cudaEventDestroy(event_);
    require(status, "cudaEventRecord");
  }
  // Never throws, since the runtime may already have ended.
  ~StreamEvent() override {
    const UnrecordedCall unrecorded;
    cudaEventDestroy(event_);
  }
  StreamEvent(const StreamEvent&) = delete;

  bool is_past() override {
    const UnrecordedCall unrecorded;
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady)
      cudaGetLastError();  // a later call would report it again
    else
      require(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  void wait() override {
    const UnrecordedCall unrecorded;
    CUDA_CALL(cudaEventSynchronize(event_));
  }
  void precede(void* stream) override {
    use(device_);
    const auto later = stream ? static_cast<cudaStream_t>(stream) : running_stream();
    CUDA_CALL(cudaStreamWaitEvent(later, event_, 0));
  }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

std::shared_ptr<Event> mark_stream(int device, cudaStream_t stream) {
  use(device);
  return std::make_shared<StreamEvent>(device, stream);
}

}  // namespace booster::kernels::cuda
