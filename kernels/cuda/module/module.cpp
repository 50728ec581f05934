// The module's table. A kernel without a CUDA source in kernels/meson.build has an undefined weak
// symbol and so a null entry, which raises an error that names it.
#include "kernels/device/module_table.h"

#include "kernels/cuda/collectives/collectives.h"
#include "kernels/cuda/products/blas_lt.h"
#include "kernels/cuda/products/library_convolution.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/moments.h"
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

std::shared_ptr<Moment> mark(int device, void* stream) {
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
const CudaModule booster_cuda_module = {&cuda::table,       cuda::use,
                                        cuda::allocate,     cuda::free,
                                        cuda::copy,         cuda::on_shortage,
                                        cuda::synchronize,  cuda::synchronize_all,
                                        cuda::device_count, cuda::describe_device,
                                        cuda::mark,         cuda::stream,
                                        cuda::run_beside,   cuda::record,
                                        cuda::allocate_pinned, cuda::free_pinned,
                                        cuda::copy_beside,  cuda::begin_time,
                                        cuda::end_time,     cuda::take_times,
                                        &cuda::nvtx_ranges, cuda::products,
                                        cuda::convolutions, &cuda::collectives};
}

}  // namespace booster::kernels
