// Combining the same run of numbers from several ranks into one.
//
// Ranks are combined in the order 0, 1, 2, ... wherever the work is done, 16-bit types in f32 with
// one rounding at the end; so every rank gets the same bits. Thread-safe.
#pragma once

#include "kernels/arguments/view.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace booster {

enum class CollectiveOp : uint8_t { sum, mean, max, min, prod };
const char* name_of(CollectiveOp reduction);

// Error for a mean of integers, which has no exact value in their type. For bool, sum and max mean
// "any", min and prod mean "all".
void check_reduction(CollectiveOp reduction, DType dtype);

// out[i] = the reduction of sources[rank][i] over all ranks, `count` elements. `out` may be one of
// the sources. `scratch` grows to hold the f32 accumulators.
void reduce_sources(void* out, const std::vector<const void*>& sources, int64_t count, DType dtype,
                    CollectiveOp reduction, std::vector<std::byte>& scratch);

// The same in several places, one after another: each adds the next ranks' numbers to what the ones
// before it have, and the last finishes. The result has the bits of reduce_sources() of all.
//
// The dtype of what is handed on: f32 for 16-bit types, else the type itself.
DType partial_dtype(DType dtype);
// `partial` becomes the reduction of itself, unless `begins`, and then of `sources`, one at least.
void reduce_further(void* partial, bool begins, const std::vector<const void*>& sources,
                    int64_t count, DType dtype, CollectiveOp reduction,
                    std::vector<std::byte>& scratch);
// `out`, of `dtype`: the reduction over `ranks` ranks whose numbers are all in `partial`, which is
// used up.
void finish_reduction(void* out, void* partial, int ranks, int64_t count, DType dtype,
                      CollectiveOp reduction);

}  // namespace booster
