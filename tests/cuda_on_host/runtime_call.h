// The frame of every CUDA runtime call: the lock, faults, and what captures forbid.
#pragma once

#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/streams/streams.h"

namespace cuda_on_host {

// Stores an error for cudaGetLastError and returns it.
cudaError_t give_back(cudaError_t error);

// Runs a call of the runtime, one at a time; a device with a fault does nothing more.
template <class Body>
cudaError_t call(Body&& body) {
  const auto turn = take_turn();
  if (has_fault()) return give_back(cudaErrorLaunchFailure);
  const cudaError_t error = body();
  return give_back(has_fault() ? cudaErrorLaunchFailure : error);
}

template <class Body>
cudaError_t done(Body&& body) {
  return call([&] {
    body();
    return cudaSuccess;
  });
}

// Makes a call that a thread must not make while a stream is being captured.
template <class Body>
cudaError_t unsafe(Body&& body) {
  return call([&] {
    const cudaError_t status = check_unsafe_call();
    return status == cudaSuccess ? body() : status;
  });
}

// Makes a call that submits work to a stream, or to its capture.
template <class Body>
cudaError_t given(cudaStream_t stream, Body&& body) {
  return call([&] {
    const CapturePlace& place = place_of(stream);
    if (place.is_capturing() && !place.capture->is_valid) return cudaErrorStreamCaptureInvalidated;
    return body();
  });
}

// Makes a call about a stream or an event that cannot be recorded.
template <class Of, class Body>
cudaError_t unrecorded(Of of, cudaError_t status_if_captured, Body&& body) {
  return call([&] {
    if (place_of(of).capture) return invalidate(place_of(of), status_if_captured);
    const cudaError_t status = check_unsafe_call();
    return status == cudaSuccess ? body() : status;
  });
}

}  // namespace cuda_on_host
