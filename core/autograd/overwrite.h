// Reuses the memory of a result's gradient for the gradient of an input, if nothing else refers to
// it.
//
// A pass that reads g and writes dx is bound by memory bandwidth, and the processor fetches new
// memory for dx before it writes it. Writing dx in place of g saves a third to a half of the
// traffic. On two Zen 4 cores the backward pass of GELU in bf16, 3152 x 768, takes 1.0 ms instead
// of 2.0. Use it only for formulae that no longer need g[i] once dx[i] is written, and only if g is
// not used after the call.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Returns true if no other tensor and no owner of borrowed memory refers to these dense elements.
// The caller may then keep or change them without a copy.
bool is_exclusive(const Tensor& g);

// Returns a dense tensor with `like`'s shape, dtype and order (row-major or channels last). It uses
// g's memory if g is exclusive, has the right size, and neither a tape nor an observer reads it
// afterwards. Otherwise it uses new, uninitialised memory. g may be undefined.
Tensor room_in_place_of(const Tensor& g, const Tensor& like);

}  // namespace booster
