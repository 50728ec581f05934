// Checks of numbers that callers give as a double, for a tensor whose dtype may not hold them.
#pragma once

#include "kernels/arguments/view.h"

namespace booster {

// Throws for a finite number beyond the largest of a floating dtype. For an integer dtype, throws
// for a number that is out of range or not finite. As in torch, fractions are truncated, and for
// bool every number except 0 is true.
void check_held(const char* op, double number, DType dtype);
// Does the same for functions that fill a tensor: larger numbers become infinity in f16 and bf16.
void check_fill(const char* op, double number, DType dtype);

}  // namespace booster
