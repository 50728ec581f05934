// Internal: the first check that every op makes of its arguments.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

inline void check_defined(const char* op, const Tensor& x) {
  check(x.defined(), "{}: argument is undefined", op);
}

}  // namespace booster
