#include "kernels/cuda/runtime/refusals.h"

#include "kernels/system/error.h"

namespace booster::kernels::cuda {

void refuse_mixed_devices() {
  fail("device: tensors of one operation lie on different devices; got cpu and cuda, want one");
}

void check_head_size(int64_t features, int64_t most) {
  check(features <= most,
        "attention: the heads are too large for a GPU; got {} features, want {} at most", features,
        most);
}

void fail_without_memory(int device, size_t bytes) {
  fail_run(
      "memory: cuda:{} has no more; got a request of {} MB for a kernel's partial results, "
      "want a smaller batch, a smaller model or 16-bit precision",
      device, bytes >> 20);
}

}  // namespace booster::kernels::cuda
