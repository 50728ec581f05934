#include "kernels/device/cuda_module.h"

#include "platform/environment.h"
#include "platform/error.h"
#include "platform/module_file.h"
#include "platform/trace.h"
#include "platform/warn.h"

#include <dlfcn.h>

#include <atomic>

namespace booster::kernels {

namespace {

struct Loaded {
  const CudaModule* module = nullptr;
  std::string missing;
};

ModuleFile open() {
  const std::string chosen = environment::text("BOOSTER_CUDA_MODULE");
  if (chosen.empty()) return open_module("cuda", "kernels/cuda", RTLD_NOW | RTLD_LOCAL);
  void* handle = dlopen(chosen.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail("BOOSTER_CUDA_MODULE: cannot load {}: {}", chosen, dlerror());
  return {handle, chosen, ""};
}

std::atomic<void (*)()> release_kept{nullptr};

// Marks kernels and the parts of a step as ranges for Nsight Systems if BOOSTER_NVTX=1.
void mark_ranges(const CudaModule& module) {
  if (!environment::flag("BOOSTER_NVTX")) return;
  range_marker = module.ranges;
  if (!module.ranges)
    warn("BOOSTER_NVTX: this build has no NVTX; want a build with the CUDA toolkit's header of it");
}

Loaded load() {
  const ModuleFile file = open();
  if (!file.handle) return {nullptr, file.missing};
  const void* table = dlsym(file.handle, cuda_module_symbol);
  if (!table) return {nullptr, file.path + " has no " + cuda_module_symbol};
  const auto* module = static_cast<const CudaModule*>(table);
  module->on_shortage([] {
    if (void (*release)() = release_kept) release();
  });
  mark_ranges(*module);
  return {module, ""};
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const CudaModule* cuda_module() { return loaded().module; }
void on_shortage_of_device_memory(void (*release)()) { release_kept = release; }
const std::string& why_no_cuda_module() { return loaded().missing; }

const CudaModule& cuda_module_for(Device device) {
  if (const CudaModule* module = cuda_module()) return *module;
  fail("device: no usable CUDA device (cannot load the CUDA module: {}); got cuda:{}, want cpu",
       why_no_cuda_module(), static_cast<int>(device.index));
}

}  // namespace booster::kernels
