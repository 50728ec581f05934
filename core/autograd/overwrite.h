// Reuses the memory of a result's gradient for the gradient of an input, if nothing else refers to
// those numbers.
//
// A pass that reads g and writes dx is bound by memory, and dx in fresh memory is fetched before it
// is written: writing it in place of g saves a third to a half of the traffic (on two Zen 4 cores
// the backward pass of GELU in bf16, 3152 x 768, takes 1.0 ms instead of 2.0). Only for formulae in
// which g[i] is no longer needed once dx[i] is written, and g is not used after the call.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// True if nothing else refers to these dense numbers (neither another tensor nor the owner of
// borrowed memory), so that they may be kept or changed without a copy.
bool is_exclusive(const Tensor& g);

// A dense tensor with `like`'s shape, dtype and order (row-major or channels last): in g's memory
// if g is exclusive, fits, and neither a tape nor an observer reads it afterwards; else in new
// memory with undefined contents. g may be undefined.
Tensor room_in_place_of(const Tensor& g, const Tensor& like);

}  // namespace booster
