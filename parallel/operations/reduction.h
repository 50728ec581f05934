// Reduces the same range of values of several ranks to one range.
//
// Every rank combines ranks in the order 0, 1, 2, ... It computes 16-bit types in f32 with one
// rounding at the end. So every rank gets the same bits. Thread-safe.
#pragma once

#include "parallel/operations/operation.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace booster {

// Throws for a mean of integers, which has no exact value in their type. For bool, sum and max mean
// "any", min and prod mean "all".
void check_reduction(CollectiveOp reduction, DType dtype);

// out[i] = the reduction of sources[rank][i] over all ranks, for `count` elements. `out` may be one
// of the sources. `scratch` grows to hold the f32 accumulators.
void reduce_sources(void* out, const std::vector<const void*>& sources, int64_t count, DType dtype,
                    CollectiveOp reduction, std::vector<std::byte>& scratch);

// The following do the same reduction in several steps, one machine after another. Each step adds
// its ranks' values to the partial result, and the last one finishes. The result has the same bits
// as one reduce_sources() of all ranks.
//
// Returns the dtype of the partial result: f32 for 16-bit types, else `dtype`.
DType partial_dtype(DType dtype);
// Reduces `sources`, at least one, into `partial`, including its present values unless `begins`.
void reduce_further(void* partial, bool begins, const std::vector<const void*>& sources,
                    int64_t count, DType dtype, CollectiveOp reduction,
                    std::vector<std::byte>& scratch);
// Writes the result of `dtype` to `out`; `partial` holds the values of all `ranks` ranks and is
// overwritten.
void finish_reduction(void* out, void* partial, int ranks, int64_t count, DType dtype,
                      CollectiveOp reduction);

}  // namespace booster
