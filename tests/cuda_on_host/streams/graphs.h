// Capture of streams, and graphs: what is given to a capturing stream is recorded, and run when the
// graph is launched, in an order that is random as far as streams and events left it open. What a
// capture forbids gives CUDA's error and invalidates it, and where its documents leave open whether
// something is forbidden it is.
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

// Where a stream has come to in a capture, or an event was recorded; without one: in none.
struct CapturePlace {
  std::shared_ptr<Capture> capture = {};
  std::set<size_t> behind = {};

  bool is_capturing() const { return capture && !capture->has_ended; }
  void add(std::function<void()> work);
};

std::shared_ptr<Capture> begin_capture(cudaStream_t origin, int device, cudaStreamCaptureMode mode);
// By the origin; null if it was invalid or something is not joined to it, which `status` says.
cudaGraph_t end_capture(const CapturePlace& origin, cudaError_t& status);

// What a thread may not do while streams are captured, by its mode: success, or
// cudaErrorStreamCaptureUnsupported and the captures are invalid.
cudaError_t check_unsafe_call();
// The same of a call that waits for the whole device, in any thread.
cudaError_t check_wait_for_device(int device);
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode);
// Of what necessarily conflicts with the capture.
cudaError_t invalidate(const CapturePlace& place, cudaError_t status);

// Runs nodes, in one of their orders.
std::function<void()> launch_of(cudaGraphExec_t executable);

}  // namespace cuda_on_host

struct cuda_on_host_graph {
  std::vector<cuda_on_host::GraphNode> nodes;
  int device;
};
struct cuda_on_host_graph_exec {
  std::shared_ptr<const std::vector<cuda_on_host::GraphNode>> nodes;
  int device;
  cudaEvent_t last_launch;  // a launch comes behind the one before, in whatever stream
};
