// Combining the same run of numbers from several ranks into one.
//
// Ranks are combined in the order 0, 1, 2, ... wherever the work is done, 16-bit types in f32 with
// one rounding at the end; so every rank gets the same bits. Thread-safe.
#pragma once

#include "kernels/view.h"

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

}  // namespace booster
