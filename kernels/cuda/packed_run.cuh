// A run of numbers of one dtype, which the threads of a block walk by packs of 16 bytes.
#pragma once

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/pack.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

template <class T>
class PackedRun {
 public:
  static constexpr int size = sizeof(uint4) / sizeof(T);  // elements of a pack

  // Packs from the first address that allows them, after a head of single elements: for what does
  // not depend on the order in which numbers are taken.
  static __device__ PackedRun from_aligned(T* x, int64_t n) {
    const int bytes = static_cast<int>(-reinterpret_cast<intptr_t>(x) & (sizeof(uint4) - 1));
    const int64_t head = bytes / static_cast<int>(sizeof(T));
    return {x, n, head < n ? head : n, true};
  }
  // Packs from the first element, wherever it lies: which thread has which elements depends on
  // nothing but n. Where the address does not allow packs they are read by elements.
  static __device__ PackedRun from_first(T* x, int64_t n) {
    return {x, n, 0, Pack<T, size>::fits(x)};
  }

  // Calls body(elements, how many) for all packs, and then for each element that is in none. What
  // it changes is stored if it `writes`.
  template <bool writes, class Body>
  __device__ void for_each(Body&& body) const {
    for_each_lane(packs_, [&](int64_t k) {
      T* p = x_ + head_ + k * size;
      T element[size];
      read(element, p);
      body(element, size);
      if constexpr (writes) write(p, element);
    });
    for_each_lane(n_ - packs_ * size,
                  [&](int64_t k) { body(x_ + (k < head_ ? k : k + packs_ * size), 1); });
  }

 private:
  __device__ PackedRun(T* x, int64_t n, int64_t head, bool aligned)
      : x_(x), n_(n), head_(head), packs_((n - head) / size), aligned_(aligned) {}

  __device__ void read(T (&element)[size], const T* p) const {
    if (aligned_) {
      Pack<T, size> pack;
      pack.load(p);
      return pack.get(element);
    }
#pragma unroll
    for (int i = 0; i < size; ++i) element[i] = p[i];
  }
  __device__ void write(T* p, const T (&element)[size]) const {
    if (aligned_) {
      Pack<T, size> pack;
      pack.set(element);
      return pack.store(p);
    }
#pragma unroll
    for (int i = 0; i < size; ++i) p[i] = element[i];
  }

  T* x_;
  int64_t n_, head_, packs_;
  bool aligned_;
};

}  // namespace booster::kernels::BOOSTER_VARIANT
