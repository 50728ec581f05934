// Internal: the first thing that every op asks of its arguments.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

inline void check_defined(const char* op, const Tensor& x) {
  check(x.defined(), "{}: argument is undefined", op);
}

}  // namespace booster
