// NVTX is a header-only library. At the first range it opens the library that a tool has named in
// the environment. Without a tool, a range is an empty call.
#include "kernels/cuda/trace/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace booster::kernels::cuda {

extern const RangeMarker nvtx_ranges;
const RangeMarker nvtx_ranges = {[](const char* name) { nvtxRangePushA(name); },
                                 [] { nvtxRangePop(); }};

}  // namespace booster::kernels::cuda
