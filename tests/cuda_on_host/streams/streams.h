// Work queued on the device. It runs only when a call waits for it, in an order that is random
// within what streams and events allow.
#pragma once

#include "tests/cuda_on_host/include/cuda_runtime_api.h"
#include "tests/cuda_on_host/streams/graphs.h"

#include <functional>

namespace cuda_on_host {

cudaStream_t create_stream(int device);
int device_of(cudaStream_t stream);
void destroy_stream(cudaStream_t stream);
// Queues the work, or records it if the stream is being captured.
void give(cudaStream_t stream, std::function<void()> work);
// Queues work that depends on other processes; it is retried until it returns true. On a GPU such
// work proceeds without any waiting call, so a thread here continues it after a moment.
void give_attempts(cudaStream_t stream, std::function<bool()> attempt);

cudaEvent_t create_event(int device, bool is_timed);
int device_of(cudaEvent_t event);
void destroy_event(cudaEvent_t event);
void record(cudaEvent_t event, cudaStream_t stream);
void wait_for_event(cudaStream_t stream, cudaEvent_t event);

// Returns the position of a stream, or of a recorded event, in the capture that records its work,
// if any. An event in a capture has no time and is never done.
CapturePlace& place_of(cudaStream_t stream);
CapturePlace& place_of(cudaEvent_t event);
// Returns whether it was recorded at all.
bool is_recorded(cudaEvent_t event);
// Makes all streams in the capture leave it.
void leave_capture(const Capture& capture);

// Run everything that must run of the work queued so far, and perhaps more.
void finish(cudaStream_t stream);
void finish(cudaEvent_t event);
void finish_device(int device);
// Returns whether all work is done; may run some first.
bool is_done(cudaStream_t stream);
bool is_done(cudaEvent_t event);
// Returns whether an event was created with timing and recorded, and whether its time is known.
bool can_be_timed(cudaEvent_t event);
bool has_time(cudaEvent_t event);
// Returns the time between two completed events.
double seconds_between(cudaEvent_t from, cudaEvent_t to);

}  // namespace cuda_on_host
