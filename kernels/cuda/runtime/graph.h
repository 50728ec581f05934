// Recordings as CUDA graphs. The recording thread's work goes to a separate stream in thread-local
// mode, so other threads use the device as usual.
#pragma once

#include "kernels/device/graph_recording.h"

#include <memory>
#include <mutex>

namespace booster::kernels::cuda {

class ScratchStack;

// Makes the calling thread record until end() or the destruction of the result. Loads all kernels
// first, which is forbidden while it records.
std::unique_ptr<Recording> record(int device);

// Returns the graph that the calling thread records; null if it records nothing.
class Graph;
Graph* graph_in_progress();
// Returns the scratch memory of that graph, which lives as long as the graph.
ScratchStack& scratch_of(Graph& graph);
// Throws if the graph is for another device.
void check_recorded_device(const Graph& graph, int device);
// Throws if the thread is recording, because `what` must happen before.
void refuse_in_recording(const char* what);
// Returns when no thread records on the device; no recording begins while the result is held. While
// any thread records on a device, CUDA refuses to wait for it and invalidates the recording. Throws
// if this thread is recording.
std::unique_lock<std::mutex> hold_off_recordings(int device);

// Allows the recording thread to allocate and free memory, and to query and destroy events, while
// it lives. These calls are not part of the graph.
class UnrecordedCall {
 public:
  UnrecordedCall();
  ~UnrecordedCall();
  UnrecordedCall(const UnrecordedCall&) = delete;

 private:
  void exchange();
  int mode_;
};

}  // namespace booster::kernels::cuda
