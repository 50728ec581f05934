// Runs of one dtype, which the threads of a block walk by packs of 16 bytes.
#pragma once

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/element_group.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

template <class T>
class PackedRun {
 public:
  static constexpr int size = sizeof(uint4) / sizeof(T);  // elements of a pack

  // Makes packs from the first aligned address on, after a head of single elements. For results
  // that do not depend on the order of elements.
  static __device__ PackedRun from_aligned(T* x, int64_t n) {
    const int bytes = static_cast<int>(-reinterpret_cast<intptr_t>(x) & (sizeof(uint4) - 1));
    const int64_t head = bytes / static_cast<int>(sizeof(T));
    return {x, n, head < n ? head : n};
  }
  // Makes packs from the first element on, so that the assignment of elements to threads depends
  // only on n. If the address is not aligned, elements are read singly.
  static __device__ PackedRun from_first(T* x, int64_t n) { return {x, n, 0}; }

  // Calls body(elements, count) for all packs, and then for each element outside of packs. With
  // `writes`, stores the changed elements.
  template <bool writes, class Body>
  __device__ void for_each(Body&& body) const {
    for_each_lane(packs_, [&](int64_t k) {
      const ElementGroup pack = {head_ + k * size, size};
      T element[size];
      read_group(element, x_, pack);
      body(element, size);
      if constexpr (writes) write_group(x_, pack, element);
    });
    for_each_lane(n_ - packs_ * size,
                  [&](int64_t k) { body(x_ + (k < head_ ? k : k + packs_ * size), 1); });
  }

 private:
  __device__ PackedRun(T* x, int64_t n, int64_t head)
      : x_(x), n_(n), head_(head), packs_((n - head) / size) {}

  T* x_;
  int64_t n_, head_, packs_;
};

// Sets to[i] = body(from[i]) for the elements of two runs, in groups that fill 16 bytes of the
// wider dtype. The assignment of elements to threads depends only on n.
template <class To, class From, class Body>
__device__ void map_groups(To* to, const From* from, int64_t n, Body&& body) {
  constexpr int size = sizeof(uint4) / (sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
  for_each_lane((n + size - 1) / size, [&](int64_t k) {
    const int64_t left = n - k * size;
    const ElementGroup group = {k * size, left < size ? static_cast<int>(left) : size};
    From in[size] = {};
    To out[size];
    read_group(in, from, group);
#pragma unroll
    for (int i = 0; i < size; ++i) out[i] = body(in[i]);
    write_group(to, group, out);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
