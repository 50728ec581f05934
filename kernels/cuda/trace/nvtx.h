// Ranges on the timeline of NVIDIA's tools; null in a module built without NVTX's header, which the
// toolkit has.
#pragma once

#include "platform/trace.h"

namespace booster::kernels::cuda {

[[gnu::weak]] extern const RangeMarker nvtx_ranges;

}  // namespace booster::kernels::cuda
