// Recordings as CUDA graphs. What the recording thread queues goes to a stream of the recording's
// own, in thread-local mode: other threads go on with the device as ever.
#pragma once

#include "kernels/device/graph_recording.h"

#include <memory>
#include <mutex>

namespace booster::kernels::cuda {

class ScratchStack;

// The calling thread records from now on until the end() or the end of what is returned. Loads all
// kernels first, which must not be while it records.
std::unique_ptr<Recording> record(int device);

// What the calling thread records; null if it records nothing.
class Graph;
Graph* graph_in_progress();
// The scratch memory of that graph, which lives as long.
ScratchStack& scratch_of(Graph& graph);
// Error if it is for another device.
void check_recorded_device(const Graph& graph, int device);
// Error if the thread records: `what` must have been done before.
void refuse_in_recording(const char* what);
// CUDA refuses to wait for a whole device on which any thread records, and spoils the recording.
// Returns when there is none; while the result is held none begins. Error if this thread records.
std::unique_lock<std::mutex> hold_off_recordings(int device);

// While it lives, the thread may get and give memory, ask for events and destroy them although it
// records: that is no part of the graph.
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
