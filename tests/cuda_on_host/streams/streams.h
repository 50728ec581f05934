// Work that was given to the device and has not been done: it is done only when somebody waits for
// it, and in an order that is random as far as streams and events leave it open.
#pragma once

#include "tests/cuda_on_host/include/cuda_runtime_api.h"
#include "tests/cuda_on_host/streams/graphs.h"

#include <functional>

namespace cuda_on_host {

cudaStream_t create_stream(int device);
int device_of(cudaStream_t stream);
void destroy_stream(cudaStream_t stream);
// Or records it, if the stream is captured.
void give(cudaStream_t stream, std::function<void()> work);
// Work that needs other processes: it is tried again until it returns true. A GPU does not need
// anybody to wait for such work, so a thread here goes on with it after a moment.
void give_attempts(cudaStream_t stream, std::function<bool()> attempt);

cudaEvent_t create_event(int device, bool is_timed);
int device_of(cudaEvent_t event);
void destroy_event(cudaEvent_t event);
void record(cudaEvent_t event, cudaStream_t stream);
void wait_for_event(cudaStream_t stream, cudaEvent_t event);

// Whether what the stream is given is recorded, and where it, or an event that was recorded there,
// is then. An event of a capture has no time and is never done.
CapturePlace& place_of(cudaStream_t stream);
CapturePlace& place_of(cudaEvent_t event);
// Whether it was recorded at all.
bool is_recorded(cudaEvent_t event);
// All streams that are in the capture leave it.
void leave_capture(const Capture& capture);

// Do what must be done of what it has been given by now, and perhaps more.
void finish(cudaStream_t stream);
void finish(cudaEvent_t event);
void finish_device(int device);
// Whether all is done; perhaps does something first.
bool is_done(cudaStream_t stream);
bool is_done(cudaEvent_t event);
// Whether an event was made for that and recorded, and whether its time has come.
bool can_be_timed(cudaEvent_t event);
bool has_time(cudaEvent_t event);
// Between two events that are done.
double seconds_between(cudaEvent_t from, cudaEvent_t to);

}  // namespace cuda_on_host
