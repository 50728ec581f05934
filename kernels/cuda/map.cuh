// Elementwise kernels on a GPU: one thread per element, which converts its operands to the compute
// type and the result back. Dtypes are resolved at run time, so there is one kernel per op and
// compute type; the cost is hidden, since elementwise work is bound by memory.
#pragma once

#include "kernels/convert.h"
#include "kernels/cuda/memory.h"
#include "kernels/elementwise_math.h"
#include "kernels/walk.h"

namespace booster::kernels::BOOSTER_VARIANT {

// A walk as a kernel's argument, its strides in bytes. One operand may be a single value in the
// host's memory (the scalar of a binary op); it is passed in here.
struct DeviceWalk {
  Walk walk;
  int64_t size = 1;
  int host_operand = -1;
  double host_value;  // 8 bytes of any dtype

  // The address of each operand's element i.
  template <int operands>
  KERNEL_FN void find(int64_t i, const char** p) const {
    int64_t offset[operands] = {};
    for (int d = walk.ndim - 1; d >= 0; --d) {
      const int64_t rest = d > 0 ? i / walk.shape[d] : 0;
      const int64_t at = i - rest * walk.shape[d];
      for (int k = 0; k < operands; ++k) offset[k] += at * walk.strides[k][d];
      i = rest;
    }
    for (int k = 0; k < operands; ++k) {
      const char* first =
          k == host_operand ? reinterpret_cast<const char*>(&host_value) : walk.data[k];
      p[k] = first + offset[k];
    }
  }
};

inline bool is_single_value(const View& view) {
  for (int d = 0; d < view.ndim; ++d)
    if (view.shape[d] > 1 && view.strides[d] != 0) return false;
  return true;
}

inline DeviceWalk device_walk(const View* const* views, int operands) {
  DeviceWalk walk = {.walk = walk_over(views, operands)};
  for (int d = 0; d < walk.walk.ndim; ++d) walk.size *= walk.walk.shape[d];
  for (int k = 0; k < operands; ++k) {
    for (int d = 0; d < walk.walk.ndim; ++d) walk.walk.strides[k][d] *= size_of(views[k]->dtype);
    if (views[k]->device.type == DeviceType::cuda) continue;
    if (k == 0 || walk.host_operand >= 0 || !is_single_value(*views[k])) refuse_mixed_devices();
    walk.host_operand = k;
    __builtin_memcpy(&walk.host_value, views[k]->data, size_of(views[k]->dtype));
  }
  return walk;
}

// views[0] = f(views[1], ...) of every element, in compute type C.
template <class C, int inputs, class F>
void map(const View* const* views, F f) {
  const DeviceWalk walk = device_walk(views, inputs + 1);
  for_each_item(walk.size, [=] ON_DEVICE(int64_t i) {
    const char* p[inputs + 1];
    walk.template find<inputs + 1>(i, p);
    C x[inputs];
    for (int k = 0; k < inputs; ++k) x[k] = load_any<C>(p[k + 1], walk.walk.dtypes[k + 1], 0);
    store_any<C>(const_cast<char*>(p[0]), walk.walk.dtypes[0], 0,
                 apply<inputs>(f, [&](int k) { return x[k]; }));
  });
}

template <class C>
void convert(const View* const* views) {
  map<C, 1>(views, Same());
}

}  // namespace booster::kernels::BOOSTER_VARIANT
