// Numbers that callers give as a double, for a tensor of a dtype that may not hold them.
#pragma once

#include "kernels/arguments/view.h"

namespace booster {

// Error for a finite number beyond the largest one of a floating dtype, and for a whole dtype for
// one that is out of range or not finite. As in torch fractions are cut off, and for bool every
// number but 0 is true.
void check_held(const char* op, double number, DType dtype);
// The same for functions that fill a tensor: there f16 and bf16 take larger numbers, as infinity.
void check_fill(const char* op, double number, DType dtype);

}  // namespace booster
