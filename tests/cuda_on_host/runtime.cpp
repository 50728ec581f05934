// The calls of CUDA's runtime.
#include "tests/cuda_on_host/runtime.h"

#include "tests/cuda_on_host/device/arena.h"
#include "tests/cuda_on_host/device/block.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/watch.h"
#include "tests/cuda_on_host/runtime_call.h"
#include "tests/cuda_on_host/streams/streams.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace cuda_on_host {
namespace {

constexpr size_t most_argument_bytes = 4096;

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_in_use = 0;

// Returns CUDA_ON_HOST_DEVICES, or 2.
int devices() {
  static const char* chosen = std::getenv("CUDA_ON_HOST_DEVICES");
  static const int count = chosen && *chosen ? std::atoi(chosen) : 2;
  return count;
}

struct PinnedRange {
  size_t bytes;
  int device;
};
std::map<const char*, PinnedRange>& pinned() {
  static auto* ranges = new std::map<const char*, PinnedRange>;
  return *ranges;
}

// Devices of cudaMalloc's memory, since cudaFree waits for that device.
std::map<void*, int>& owners() {
  static auto* devices = new std::map<void*, int>;
  return *devices;
}

// Returns the kernels that the driver has loaded on a device. It must not load one while NCCL
// operations may run, so count_communicators() tracks their number.
std::set<std::pair<int, const void*>>& loaded() {
  static auto* kernels = new std::set<std::pair<int, const void*>>;
  return *kernels;
}
int communicators = 0;

// Returns whether it was not loaded before.
bool load(const void* kernel, const char* name) {
  const bool is_new = loaded().insert({device_in_use, kernel}).second;
  if (is_new && communicators > 0)
    fault("a kernel runs for the first time, and is loaded, beside NCCL: {}", name);
  return is_new;
}

bool is_pinned(const void* data) {
  const char* p = static_cast<const char*>(data);
  auto after = pinned().upper_bound(p);
  if (after == pinned().begin()) return false;
  --after;
  return p < after->first + after->second.bytes;
}

void check_range(const void* data, size_t bytes) {
  if (!is_on_device(data)) return;
  const std::string wrong = open_on_device(data, bytes);
  if (!wrong.empty()) fault("a copy touches {}", wrong);
}

cudaError_t allocate(void** data, size_t bytes) {
  *data = allocate_on_device(bytes);
  if (!*data) {
    finish_device(device_in_use);  // some of the work frees memory
    *data = allocate_on_device(bytes);
  }
  return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

std::recursive_mutex& runtime_mutex() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

std::unique_lock<std::recursive_mutex> take_turn() {
  static const char* chosen = std::getenv("CUDA_ON_HOST_DELAYS");
  static const unsigned long every = chosen ? std::strtoul(chosen, nullptr, 10) : 0;
  thread_local std::minstd_rand random(std::random_device{}());
  if (every > 0 && random() % every == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
  return std::unique_lock(runtime_mutex());
}

cudaError_t give_back(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int device_of_thread() { return device_in_use; }
void count_communicators(int more) {
  std::lock_guard lock(runtime_mutex());
  communicators += more;
}

void copy_now(void* to, const void* from, size_t bytes) {
  check_range(to, bytes);
  check_range(from, bytes);
  std::memmove(to, from, bytes);
  if (is_on_device(to)) mark_written(to, bytes);
}

cudaError_t queue_work(cudaStream_t stream, std::function<void()> work) {
  return given(stream, [&] {
    if (device_of(stream) != device_in_use) return cudaErrorInvalidResourceHandle;
    give(stream, std::move(work));
    return cudaSuccess;
  });
}

cudaError_t launch(Launch launch, cudaStream_t stream) {
  return call([&] {
    const size_t blocks = size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    const size_t threads = size_t{launch.block.x} * launch.block.y * launch.block.z;
    if (blocks == 0 || threads == 0 || threads > 1024 || launch.grid.x > 0x7FFFFFFF ||
        launch.grid.y > 65535 || launch.grid.z > 65535 ||
        launch.argument_bytes > most_argument_bytes)
      return cudaErrorInvalidValue;
    // Loading a kernel may make the driver wait for the device.
    if (load(launch.kernel, launch.name) && place_of(stream).is_capturing())
      return invalidate(place_of(stream), cudaErrorStreamCaptureUnsupported);
    return queue_work(stream, [launch = std::move(launch)] { run_launch(launch); });
  });
}

}  // namespace cuda_on_host

using namespace cuda_on_host;

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return give_back(cudaErrorInvalidDevice);
  device_in_use = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_in_use;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  std::snprintf(properties->name, sizeof properties->name, "CUDA on the host");
  // CUDA_ON_HOST_CAPABILITY, such as 7.5; default 9.0.
  const char* capability = std::getenv("CUDA_ON_HOST_CAPABILITY");
  if (!capability || std::sscanf(capability, "%d.%d", &properties->major, &properties->minor) != 2)
    properties->major = 9;
  properties->multiProcessorCount = 2;
  properties->totalGlobalMem = all_device_bytes();
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return done([&] {
    *attributes = {};
    loaded().insert({device_in_use, kernel});
  });
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return fault_text().c_str();
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge: return "operation would result in a merge of captures";
    case cudaErrorStreamCaptureUnmatched: return "capture was not ended in the stream it began in";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to end a capture in another thread than it began in";
    default: return "unrecognized error code";
  }
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return unsafe([&] {
    const cudaError_t status = allocate(data, bytes);
    if (status == cudaSuccess) owners()[*data] = device_in_use;
    return status;
  });
}
cudaError_t cudaFree(void* data) {
  if (!data) return cudaSuccess;
  return unsafe([&] {
    const auto owner = owners().extract(data);
    finish_device(owner ? owner.mapped() : device_in_use);
    return free_on_device(data) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
// CUDA graphs support such nodes; this emulator does not.
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  return unrecorded(stream, cudaErrorStreamCaptureUnsupported,
                    [&] { return allocate(data, bytes); });
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  return unrecorded(stream, cudaErrorStreamCaptureUnsupported, [&] {
    owners().erase(data);
    give(stream, [=] {
      if (!free_on_device(data)) fault("a stream frees what is no allocation");
    });
    return cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return unsafe([&] {
    *data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    pinned()[static_cast<char*>(*data)] = {bytes, device_in_use};
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* data) {
  return unsafe([&] {
    const auto range = pinned().find(static_cast<char*>(data));
    if (range == pinned().end()) return cudaErrorInvalidValue;
    finish_device(range->second.device);
    pinned().erase(range);
    std::free(data);
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = free_device_bytes();
  *total = all_device_bytes();
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

// Pageable host memory is read or written before the call returns. Pinned memory is accessed when
// the device reaches the copy. A graph accesses both when it runs. A copy that must complete before
// its call returns cannot be captured.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return given(stream, [&] {
    CapturePlace& place = place_of(stream);
    const bool is_captured = place.is_capturing();
    if (is_captured && !is_on_device(to) && !is_pinned(to))
      return invalidate(place, cudaErrorStreamCaptureUnsupported);
    if (!is_captured && !is_on_device(from) && !is_pinned(from)) {
      const char* p = static_cast<const char*>(from);
      give(stream,
           [=, taken = std::vector<char>(p, p + bytes)] { copy_now(to, taken.data(), bytes); });
    } else {
      give(stream, [=] { copy_now(to, from, bytes); });
    }
    if (!is_on_device(to) && !is_pinned(to)) finish(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return given(stream, [&] {
    give(stream, [=] {
      check_range(to, bytes);
      std::memset(to, value, bytes);
      mark_written(to, bytes);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&] {
    if (flags != cudaStreamNonBlocking)
      return cudaErrorInvalidValue;  // waits for the legacy stream
    *stream = create_stream(device_in_use);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return done([&] { destroy_stream(stream); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return unrecorded(stream, cudaErrorStreamCaptureUnsupported, [&] {
    finish(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return unrecorded(stream, cudaErrorStreamCaptureUnsupported,
                    [&] { return is_done(stream) ? cudaSuccess : cudaErrorNotReady; });
}
// In a capture a stream can only wait for events recorded in the same capture. A stream outside the
// capture joins it by waiting for such an event.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return given(stream, [&] {
    CapturePlace& here = place_of(stream);
    const CapturePlace& there = place_of(event);
    if (!there.capture) {
      if (here.is_capturing() && is_recorded(event))
        return invalidate(here, cudaErrorStreamCaptureIsolation);
      wait_for_event(stream, event);
      return cudaSuccess;
    }
    if (!there.is_capturing()) return invalidate(here, cudaErrorCapturedEvent);
    if (!there.capture->is_valid) return cudaErrorStreamCaptureInvalidated;
    if (here.is_capturing() && here.capture != there.capture) {
      invalidate(there, cudaErrorStreamCaptureMerge);
      return invalidate(here, cudaErrorStreamCaptureMerge);
    }
    here.capture = there.capture;
    here.behind.insert(there.behind.begin(), there.behind.end());
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call([] {
    const cudaError_t status = check_wait_for_device(device_in_use);
    if (status == cudaSuccess) finish_device(device_in_use);
    return status;
  });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return done([&] { *event = create_event(device_in_use, !(flags & cudaEventDisableTiming)); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return done([&] { destroy_event(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return given(stream, [&] {
    if (device_of(event) != device_of(stream)) return cudaErrorInvalidResourceHandle;
    record(event, stream);
    return cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return unrecorded(event, cudaErrorCapturedEvent,
                    [&] { return is_done(event) ? cudaSuccess : cudaErrorNotReady; });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return unrecorded(event, cudaErrorCapturedEvent, [&] {
    finish(event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call([&] {
    for (const cudaEvent_t event : {from, to})
      if (place_of(event).capture) return invalidate(place_of(event), cudaErrorCapturedEvent);
    if (device_of(from) != device_of(to) || !can_be_timed(from) || !can_be_timed(to))
      return cudaErrorInvalidResourceHandle;
    if (!has_time(from) || !has_time(to)) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(1e3 * seconds_between(from, to));
    return cudaSuccess;
  });
}
