// The compute type of a floating dtype that is given as a C++ type; visit_compute (convert.h) takes
// a DType.
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
