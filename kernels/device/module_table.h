// The table of the CUDA kernels and their memory, in a module that is loaded when a program first
// needs a GPU (kernels/device/cuda_module.h). Everything else builds and runs without CUDA.
// tests/cuda_on_host builds a second module from the same sources, which needs no GPU.
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

// One of NVIDIA's libraries on this machine.
struct LibraryHere {
  size_t version = 0;   // in the library's form; 0: there is none
  std::string missing;  // why
};

struct CudaModule {
  const Table* table;
  // Selects the device of the calling thread's next kernels. Throws if there is no such device.
  void (*use)(int device);
  // See kernels/cuda/runtime/memory.h.
  void* (*allocate)(int device, size_t bytes);
  void (*free)(int device, void* data);
  void (*copy)(void* to, const void* from, size_t bytes);
  void (*on_shortage)(void (*release)());
  void (*synchronize)(int device);
  void (*synchronize_all)(int device);
  int (*device_count)();
  CudaDevice (*describe_device)(int device);
  // Returns the event after all work that a stream of the device has: a cudaStream_t, or null for
  // the stream of the calling thread's kernels.
  std::shared_ptr<Event> (*mark)(int device, void* stream);
  // Returns the latter stream: a cudaStream_t.
  void* (*stream)(int device);
  // Runs `body`; its work goes to the calling thread's own stream on that device, which does not
  // wait for other threads' work.
  void (*run_beside)(int device, const std::function<void()>& body);
  // Makes the calling thread record from now on; see kernels/device/graph_recording.h.
  std::unique_ptr<Recording> (*record)(int device);
  // See kernels/cuda/runtime/staging.h.
  void* (*allocate_pinned)(int device, size_t bytes);
  void (*free_pinned)(void* data);
  std::shared_ptr<Event> (*copy_beside)(int device, void* to, const void* from, size_t bytes,
                                        Event* after);
  // See kernels/device/gpu_times.h.
  int64_t (*begin_time)() noexcept;
  void (*end_time)(int64_t number) noexcept;
  GpuTimes (*take_times)();
  // NVTX; null in a module that was built without its headers.
  const RangeMarker* ranges;
  // Return the libraries of matrix products, and of convolutions.
  LibraryHere (*products)();
  LibraryHere (*convolutions)();
  // Null in a module that was built without NCCL's header.
  const Collectives* collectives;
};

// The name of the table's symbol in the module.
inline constexpr const char* cuda_module_symbol = "booster_cuda_module";

}  // namespace booster::kernels
