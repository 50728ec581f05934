// The calls of CUDA's runtime for captures and graphs.
#include "tests/cuda_on_host/runtime_call.h"

#include <thread>

using namespace cuda_on_host;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&] {
    if (!stream) return cudaErrorStreamCaptureUnsupported;  // the legacy stream
    CapturePlace& place = place_of(stream);
    if (place.is_capturing()) return cudaErrorIllegalState;
    place = {begin_capture(stream, device_of(stream), mode), {}};
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&] {
    *graph = nullptr;
    const CapturePlace place = place_of(stream);
    if (!place.is_capturing()) return cudaErrorIllegalState;
    const Capture& capture = *place.capture;
    if (capture.origin != stream) return invalidate(place, cudaErrorStreamCaptureUnmatched);
    if (capture.mode != cudaStreamCaptureModeRelaxed &&
        capture.thread != std::this_thread::get_id())
      return cudaErrorStreamCaptureWrongThread;
    cudaError_t status = cudaSuccess;
    *graph = end_capture(place, status);
    leave_capture(capture);
    return status;
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  unsigned long long id = 0;
  return cudaStreamGetCaptureInfo(stream, status, &id);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id) {
  return done([&] {
    const CapturePlace& place = place_of(stream);
    *status = !place.is_capturing()      ? cudaStreamCaptureStatusNone
              : place.capture->is_valid ? cudaStreamCaptureStatusActive
                                        : cudaStreamCaptureStatusInvalidated;
    *id = place.is_capturing() ? place.capture->id : 0;
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return done([&] { *mode = exchange_capture_mode(*mode); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return call([&] {
    if (!graph || flags != 0) return cudaErrorInvalidValue;
    *executable = new cuda_on_host_graph_exec{
        std::make_shared<const std::vector<GraphNode>>(graph->nodes), graph->device,
        create_event(graph->device, false)};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&] {
    if (!executable || device_of(stream) != executable->device) return cudaErrorInvalidValue;
    if (place_of(stream).is_capturing())
      return invalidate(place_of(stream), cudaErrorStreamCaptureUnsupported);
    wait_for_event(stream, executable->last_launch);
    give(stream, launch_of(executable));
    destroy_event(executable->last_launch);
    executable->last_launch = create_event(executable->device, false);
    record(executable->last_launch, stream);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&] {
    if (!executable) return cudaErrorInvalidValue;
    destroy_event(executable->last_launch);
    delete executable;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] {
    if (!graph) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}
