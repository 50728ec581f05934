// The type in which numbers of a floating dtype are computed, where the dtype is a type already;
// visit_compute (convert.h) goes by a DType.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

template <class T>
struct ComputeType {
  using type = float;
};
template <>
struct ComputeType<double> {
  using type = double;
};
template <class T>
using ComputeOf = typename ComputeType<T>::type;

}  // namespace booster::kernels::BOOSTER_VARIANT
