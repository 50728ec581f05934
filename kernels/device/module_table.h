// The CUDA kernels and their memory behind one table, in a module that is loaded when a program
// first asks for a GPU (kernels/device/cuda_module.h): everything else builds and runs where there
// is no CUDA. tests/cuda_on_host builds a second one from the same sources, which needs no GPU.
#pragma once

#include "kernels/catalogue.h"
#include "kernels/device/communicator.h"
#include "kernels/device/gpu_times.h"
#include "kernels/device/graph_recording.h"
#include "kernels/device/memory.h"
#include "platform/trace.h"

#include <functional>
#include <memory>
#include <string>

namespace booster::kernels {

// One of NVIDIA's libraries, as it was found.
struct LibraryHere {
  size_t version = 0;   // as the library gives it; 0: there is none
  std::string missing;  // why
};

struct CudaModule {
  const Table* table;
  // Makes a device the one that the calling thread's next kernels run on; error if there is none.
  void (*use)(int device);
  // kernels/cuda/runtime/memory.h says what they do.
  void* (*allocate)(int device, size_t bytes);
  void (*free)(int device, void* data);
  void (*copy)(void* to, const void* from, size_t bytes);
  void (*on_shortage)(void (*release)());
  void (*synchronize)(int device);
  void (*synchronize_all)(int device);
  int (*device_count)();
  CudaDevice (*describe_device)(int device);
  // What a stream of the device has been given so far: a cudaStream_t, or null for the one that
  // the calling thread's kernels run on.
  std::shared_ptr<Moment> (*mark)(int device, void* stream);
  // That one: a cudaStream_t.
  void* (*stream)(int device);
  // What `body` queues goes to a stream of the calling thread's own on that device, where it waits
  // for nothing that others have queued.
  void (*run_beside)(int device, const std::function<void()>& body);
  // kernels/device/graph_recording.h; of the calling thread, from now on.
  std::unique_ptr<Recording> (*record)(int device);
  // kernels/cuda/runtime/staging.h says what they do.
  void* (*allocate_pinned)(int device, size_t bytes);
  void (*free_pinned)(void* data);
  std::shared_ptr<Moment> (*copy_beside)(int device, void* to, const void* from, size_t bytes,
                                         Moment* after);
  // kernels/device/gpu_times.h says what they do.
  int64_t (*begin_time)() noexcept;
  void (*end_time)(int64_t number) noexcept;
  GpuTimes (*take_times)();
  // NVTX; null in a module that was built without its headers.
  const RangeMarker* ranges;
  // What computes matrix products, and convolutions.
  LibraryHere (*products)();
  LibraryHere (*convolutions)();
  // Null in a module that was built without NCCL's header.
  const Collectives* collectives;
};

// The name under which the module has its table.
inline constexpr const char* cuda_module_symbol = "booster_cuda_module";

}  // namespace booster::kernels
