// The module's table. A kernel without a CUDA source in kernels/meson.build has an undefined weak
// symbol. Its entry is therefore null, and a call throws an error that names it.
#include "kernels/device/module_table.h"

#include "kernels/cuda/collectives/collectives.h"
#include "kernels/cuda/products/blas_lt.h"
#include "kernels/cuda/products/library_convolution.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/events.h"
#include "kernels/cuda/runtime/staging.h"
#include "kernels/cuda/trace/nvtx.h"

namespace booster::kernels {
namespace cuda {

#define KERNEL(name, ...) [[gnu::weak]] void name(__VA_ARGS__);
#include "kernels/catalogue.def"

namespace {
constexpr Table table = {
#define KERNEL(name, ...) {&name, #name, DeviceType::cuda},
#include "kernels/catalogue.def"
};

std::shared_ptr<Event> mark(int device, void* stream) {
  use(device);
  return mark_stream(device, stream ? static_cast<cudaStream_t>(stream) : running_stream());
}
void* stream(int device) {
  use(device);
  return current_stream();
}
LibraryHere products() { return {blas_lt() ? blas_lt()->version() : 0, why_no_blas_lt()}; }
LibraryHere convolutions() { return {convolution_library_version(), why_no_convolution_library()}; }
}  // namespace

}  // namespace cuda

extern "C" {
[[gnu::visibility("default")]] extern const CudaModule booster_cuda_module;
const CudaModule booster_cuda_module = {
    .table = &cuda::table,
    .use = cuda::use,
    .allocate = cuda::allocate,
    .free = cuda::free,
    .copy = cuda::copy,
    .on_shortage = cuda::on_shortage,
    .synchronize = cuda::synchronize,
    .synchronize_all = cuda::synchronize_all,
    .device_count = cuda::device_count,
    .describe_device = cuda::describe_device,
    .mark = cuda::mark,
    .stream = cuda::stream,
    .run_beside = cuda::run_beside,
    .record = cuda::record,
    .allocate_pinned = cuda::allocate_pinned,
    .free_pinned = cuda::free_pinned,
    .copy_beside = cuda::copy_beside,
    .begin_time = cuda::begin_time,
    .end_time = cuda::end_time,
    .take_times = cuda::take_times,
    .ranges = &cuda::nvtx_ranges,
    .products = cuda::products,
    .convolutions = cuda::convolutions,
    .collectives = &cuda::collectives,
};
}

}  // namespace booster::kernels
