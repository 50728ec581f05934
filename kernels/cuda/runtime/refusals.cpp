#include "kernels/cuda/runtime/refusals.h"

#include "platform/error.h"

namespace booster::kernels::cuda {

void refuse_mixed_devices() {
  fail("device: tensors of one operation are on different devices; got cpu and cuda, want one");
}

void fail_without_memory(int device, size_t bytes) {
  fail_run(
      "memory: cuda:{} has no more memory; got a request of {} MB for a kernel's partial results, "
      "want a smaller batch, a smaller model or 16-bit precision",
      device, bytes >> 20);
}

}  // namespace booster::kernels::cuda
