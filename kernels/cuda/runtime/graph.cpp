#include "kernels/cuda/runtime/graph.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/loaded_kernels.h"
#include "kernels/cuda/runtime/scratch.h"
#include "platform/error.h"

#include <condition_variable>
#include <optional>
#include <utility>

namespace booster::kernels::cuda {
namespace {

thread_local Graph* in_progress = nullptr;

// Recordings in progress on all threads, by device.
std::mutex recordings_mutex;
std::condition_variable recording_ended;
int recordings[most_devices] = {};

}  // namespace

class Graph final : public Recording {
 public:
  explicit Graph(int device) : device_(device), scratch_(device, ScratchStack::Use::recorded) {
    check(!in_progress, "capture: this thread is already recording; got cuda:{}", device);
    use(device);
    load_kernels();
    CUDA_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    begin();
    scope_.emplace(stream_);
  }

  // Never throws, since the runtime may already have ended.
  ~Graph() override {
    if (in_progress == this) cudaGraphDestroy(finish().first);
    const UnrecordedCall unrecorded;  // this thread may record another graph
    if (executable_) cudaGraphExecDestroy(executable_);
    cudaStreamDestroy(stream_);
    cudaGetLastError();  // a later call would report it again
  }
  Graph(const Graph&) = delete;

  void end() override {
    const auto [graph, status] = finish();
    require(status, "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiateWithFlags(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    require(made, "cudaGraphInstantiate");
  }

  void replay() override {
    use(device_);
    CUDA_CALL(cudaGraphLaunch(executable_, current_stream()));
    wait_if_debugging();
  }

  ScratchStack& scratch() { return scratch_; }
  int device() const { return device_; }

 private:
  void begin() {
    const std::lock_guard lock(recordings_mutex);
    const cudaError_t status = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    if (status != cudaSuccess) cudaStreamDestroy(stream_);
    require(status, "cudaStreamBeginCapture");
    in_progress = this;
    ++recordings[device_];
  }
  std::pair<cudaGraph_t, cudaError_t> finish() {
    scope_.reset();
    in_progress = nullptr;
    const std::lock_guard lock(recordings_mutex);
    --recordings[device_];
    recording_ended.notify_all();
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(stream_, &graph);
    return {graph, status};
  }

  int device_;
  ScratchStack scratch_;
  cudaStream_t stream_ = nullptr;
  std::optional<StreamScope> scope_;
  cudaGraphExec_t executable_ = nullptr;
};

std::unique_ptr<Recording> record(int device) { return std::make_unique<Graph>(device); }

Graph* graph_in_progress() { return in_progress; }
ScratchStack& scratch_of(Graph& graph) { return graph.scratch(); }

void check_recorded_device(const Graph& graph, int device) {
  check(device == graph.device(),
        "capture: a capture supports one GPU; got work for cuda:{}, want all work on cuda:{}",
        device, graph.device());
}

void refuse_in_recording(const char* what) {
  check(!in_progress,
        "capture: {} on this thread cannot be recorded; want a plain run of the work with the same "
        "shapes before the capture",
        what);
}

std::unique_lock<std::mutex> hold_off_recordings(int device) {
  refuse_in_recording("a wait for all work of a GPU");
  std::unique_lock lock(recordings_mutex);
  recording_ended.wait(lock, [=] { return recordings[device] == 0; });
  return lock;
}

UnrecordedCall::UnrecordedCall() : mode_(cudaStreamCaptureModeRelaxed) { exchange(); }
UnrecordedCall::~UnrecordedCall() { exchange(); }
void UnrecordedCall::exchange() {
  if (!in_progress) return;
  auto mode = static_cast<cudaStreamCaptureMode>(mode_);
  cudaThreadExchangeStreamCaptureMode(&mode);
  mode_ = mode;
}

}  // namespace booster::kernels::cuda
