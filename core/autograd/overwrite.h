// Reuses the memory of a result's gradient for the gradient of an input, if nothing else refers to
// it.
//
// A pass that reads g and writes dx is bound by memory bandwidth, and fresh memory for dx is
// fetched before it is written. Writing dx in place of g saves a third to a half of the traffic. On
// two Zen 4 cores the backward pass of GELU in bf16, 3152 x 768, takes 1.0 ms instead of 2.0. Only
// for formulae that no longer need g[i] once dx[i] is written, and only if g is not used after the
// call.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Returns whether nothing else refers to these dense elements (neither another tensor nor the owner
// of borrowed memory), so that they may be kept or changed without a copy.
bool is_exclusive(const Tensor& g);

// Returns a dense tensor with `like`'s shape, dtype and order (row-major or channels last). It lies
// in g's memory if g is exclusive, fits, and neither a tape nor an observer reads it afterwards;
// else in new, uninitialised memory. g may be undefined.
Tensor room_in_place_of(const Tensor& g, const Tensor& like);

}  // namespace booster
