// A few neighbouring elements that a thread moves between memory and its registers by one access,
// or by several of 16 bytes. Their address must be a multiple of the access size.
#pragma once

#include "kernels/numbers/convert.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int quad = 4;  // elements: 16 bytes of f32, 8 of f16 and bf16

// The type that one access moves, for a pack of this many bytes.
template <int bytes>
struct WordOf {
  static_assert(bytes % sizeof(uint4) == 0);
  using type = uint4;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<4> {
  using type = uint32_t;
};

template <class T, int n>
struct Pack {
  using Word = typename WordOf<n * sizeof(T)>::type;
  static constexpr int words = n * sizeof(T) / sizeof(Word);

  // Returns true if a pack may be at this address.
  static __device__ bool fits(const T* p) {
    return reinterpret_cast<uintptr_t>(p) % sizeof(Word) == 0;
  }
  __device__ void load(const T* p) {
#pragma unroll
    for (int i = 0; i < words; ++i) word[i] = reinterpret_cast<const Word*>(p)[i];
  }
  __device__ void store(T* p) const {
#pragma unroll
    for (int i = 0; i < words; ++i) reinterpret_cast<Word*>(p)[i] = word[i];
  }
  // Copy the elements unconverted.
  __device__ void get(T* element) const {
    __builtin_memcpy(static_cast<void*>(element), word, sizeof word);
  }
  __device__ void set(const T* element) {
    __builtin_memcpy(static_cast<void*>(word), element, sizeof word);
  }
  // Convert the elements to the compute type and back.
  template <class C>
  __device__ void unpack(C* to) const {
    T element[n];
    get(element);
#pragma unroll
    for (int i = 0; i < n; ++i) to[i] = kernels::BOOSTER_VARIANT::load<C>(element + i);
  }
  template <class C>
  __device__ void pack(const C* from) {
    T element[n];
#pragma unroll
    for (int i = 0; i < n; ++i) kernels::BOOSTER_VARIANT::store(element + i, from[i]);
    set(element);
  }

  Word word[words];
};

}  // namespace booster::kernels::BOOSTER_VARIANT
