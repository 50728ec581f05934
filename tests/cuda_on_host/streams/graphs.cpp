#include "tests/cuda_on_host/streams/graphs.h"

#include "tests/cuda_on_host/device/chance.h"
#include "tests/cuda_on_host/device/fault.h"

#include <algorithm>
#include <utility>

namespace cuda_on_host {
namespace {

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

template <class Concerns>
cudaError_t invalidate_those(Concerns&& concerns) {
  cudaError_t status = cudaSuccess;
  for (const auto& capture : captures()) {
    if (!concerns(*capture)) continue;
    capture->is_valid = false;
    status = cudaErrorStreamCaptureUnsupported;
  }
  return status;
}

// Returns whether everything recorded precedes the end; otherwise some stream has not joined.
bool is_joined(const CapturePlace& origin) {
  const std::vector<GraphNode>& nodes = origin.capture->nodes;
  std::set<size_t> reached = origin.behind;
  std::vector<size_t> open(reached.begin(), reached.end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    for (const size_t before : nodes[node].behind)
      if (reached.insert(before).second) open.push_back(before);
  }
  return reached.size() == nodes.size();
}

void run_all(const std::vector<GraphNode>& nodes) {
  std::vector<size_t> missing(nodes.size()), ready;
  std::vector<std::vector<size_t>> next(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].behind.size();
    for (const size_t before : nodes[i].behind) next[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty() && !has_fault()) {
    std::swap(ready[chance(ready.size())], ready.back());
    const size_t node = ready.back();
    ready.pop_back();
    nodes[node].run();
    for (const size_t later : next[node])
      if (--missing[later] == 0) ready.push_back(later);
  }
}

}  // namespace

void CapturePlace::add(std::function<void()> work) {
  capture->nodes.push_back({std::move(work), std::move(behind)});
  behind = {capture->nodes.size() - 1};
}

std::shared_ptr<Capture> begin_capture(cudaStream_t origin, int device,
                                       cudaStreamCaptureMode mode) {
  static unsigned long long last = 0;
  captures().push_back(std::make_shared<Capture>(
      Capture{++last, origin, device, mode, std::this_thread::get_id()}));
  return captures().back();
}

cudaGraph_t end_capture(const CapturePlace& origin, cudaError_t& status) {
  Capture& capture = *origin.capture;
  status = !capture.is_valid      ? cudaErrorStreamCaptureInvalidated
           : !is_joined(origin) ? cudaErrorStreamCaptureUnjoined
                                : cudaSuccess;
  capture.has_ended = true;
  std::erase(captures(), origin.capture);
  if (status != cudaSuccess) return nullptr;
  return new cuda_on_host_graph{std::move(capture.nodes), capture.device};
}

cudaError_t check_unsafe_call() {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  return invalidate_those([](const Capture& capture) {
    const bool is_own = capture.thread == std::this_thread::get_id();
    return is_own ? capture.mode != cudaStreamCaptureModeRelaxed
                  : capture.mode == cudaStreamCaptureModeGlobal &&
                        mode_of_thread == cudaStreamCaptureModeGlobal;
  });
}

cudaError_t check_wait_for_device(int device) {
  return invalidate_those([=](const Capture& capture) { return capture.device == device; });
}

cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode) {
  return std::exchange(mode_of_thread, mode);
}

cudaError_t invalidate(const CapturePlace& place, cudaError_t status) {
  if (place.is_capturing()) place.capture->is_valid = false;
  return status;
}

std::function<void()> launch_of(cudaGraphExec_t executable) {
  return [nodes = executable->nodes] { run_all(*nodes); };
}

}  // namespace cuda_on_host
