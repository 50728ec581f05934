// Stream capture and graphs. Work submitted to a capturing stream is recorded. It runs when the
// graph is launched, in an order that is random within what streams and events allow. A forbidden
// call returns CUDA's error and invalidates the capture. If CUDA's documents are ambiguous, the
// call counts as forbidden.
#pragma once

#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace cuda_on_host {

struct GraphNode {
  std::function<void()> run;
  std::set<size_t> behind;
};

struct Capture {
  unsigned long long id;
  cudaStream_t origin;
  int device;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool is_valid = true, has_ended = false;
  std::vector<GraphNode> nodes = {};
};

// The position of a stream in a capture, or the position at which an event was recorded; empty
// outside of a capture.
struct CapturePlace {
  std::shared_ptr<Capture> capture = {};
  std::set<size_t> behind = {};

  bool is_capturing() const { return capture && !capture->has_ended; }
  void add(std::function<void()> work);
};

std::shared_ptr<Capture> begin_capture(cudaStream_t origin, int device, cudaStreamCaptureMode mode);
// Ends the capture at its origin. Returns null, with the reason in `status`, if it was invalid or a
// stream has not joined it.
cudaGraph_t end_capture(const CapturePlace& origin, cudaError_t& status);

// Checks a call that a thread must not make while streams are being captured, by the thread's mode.
// Returns success, or cudaErrorStreamCaptureUnsupported after invalidating the captures.
cudaError_t check_unsafe_call();
// Does the same for a call that waits for the whole device, in any thread.
cudaError_t check_wait_for_device(int device);
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode);
// Invalidates the capture because of a call that conflicts with it.
cudaError_t invalidate(const CapturePlace& place, cudaError_t status);

// Returns work that runs the nodes in one of their valid orders.
std::function<void()> launch_of(cudaGraphExec_t executable);

}  // namespace cuda_on_host

struct cuda_on_host_graph {
  std::vector<cuda_on_host::GraphNode> nodes;
  int device;
};
struct cuda_on_host_graph_exec {
  std::shared_ptr<const std::vector<cuda_on_host::GraphNode>> nodes;
  int device;
  cudaEvent_t last_launch;  // launches run one after the other, in any stream
};
