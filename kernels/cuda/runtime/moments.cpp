#include "kernels/cuda/runtime/moments.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"

namespace booster::kernels::cuda {
namespace {

class EventMoment final : public Moment {
 public:
  EventMoment(int device, cudaStream_t stream) : device_(device) {
    CUDA_CALL(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    const cudaError_t status = cudaEventRecord(event_, stream);
    if (status != cudaSuccess) cudaEventDestroy(event_);
    require(status, "cudaEventRecord");
  }
  // Never throws, since the runtime may already have ended.
  ~EventMoment() override {
    const UnrecordedCall unrecorded;
    cudaEventDestroy(event_);
  }
  EventMoment(const EventMoment&) = delete;

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

std::shared_ptr<Moment> mark_stream(int device, cudaStream_t stream) {
  use(device);
  return std::make_shared<EventMoment>(device, stream);
}

}  // namespace booster::kernels::cuda
