// Neighbouring elements of a run that a thread handles together. One access reads or writes them if
// all are in the run and their address is aligned; otherwise elements are accessed singly.
#pragma once

#include "kernels/cuda/pack.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

// The elements first, first + 1, ... of a run.
struct ElementGroup {
  int64_t first;
  int count;  // at the end of the run, less than the arrays below
};

// Reads raw elements; leaves array elements beyond the group unchanged.
template <class T, int size>
__device__ void read_group(T (&to)[size], const void* run, ElementGroup group) {
  using Whole = Pack<T, size>;
  const T* p = static_cast<const T*>(run) + group.first;
  if (group.count == size && Whole::fits(p)) {
    Whole whole;
    whole.load(p);
    return whole.get(to);
  }
#pragma unroll
  for (int i = 0; i < size; ++i)
    if (i < group.count) to[i] = p[i];
}
template <class T, int size>
__device__ void write_group(void* run, ElementGroup group, const T (&from)[size]) {
  using Whole = Pack<T, size>;
  T* p = static_cast<T*>(run) + group.first;
  if (group.count == size && Whole::fits(p)) {
    Whole whole;
    whole.set(from);
    return whole.store(p);
  }
#pragma unroll
  for (int i = 0; i < size; ++i)
    if (i < group.count) p[i] = from[i];
}
// Loads elements of a dtype that is known at run time, in the compute type.
template <class C, int size>
__device__ void load_group(C (&to)[size], const void* run, DType dtype, ElementGroup group) {
  visit_floating(dtype, [&]<class T>(T*) {
    T element[size] = {};
    read_group(element, run, group);
#pragma unroll
    for (int i = 0; i < size; ++i) to[i] = load<C>(element + i);
  });
}
template <class C, int size>
__device__ void store_group(void* run, DType dtype, ElementGroup group, const C (&from)[size]) {
  visit_floating(dtype, [&]<class T>(T*) {
    T element[size];
#pragma unroll
    for (int i = 0; i < size; ++i) store(element + i, from[i]);
    write_group(run, group, element);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
