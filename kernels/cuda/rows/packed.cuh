// Runs of 8 neighbouring elements ("packs"), moved between memory and a thread's registers.
// Accesses move 16 bytes if the whole pack is in the row and its address is aligned; otherwise
// single elements. The dtype is resolved once for all packs of a share, so that all their loads are
// in flight before the first is used. One kernel supports any mix of dtypes.
#pragma once

#include "kernels/cuda/pack.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int pack_size = 8;

// A dense tensor of any floating dtype as a kernel's argument; absent if `data` is null.
struct Operand {
  Operand() = default;
  Operand(const View& view) : Operand(view.data, view.dtype) {}
  Operand(void* memory, DType type)
      : data(memory),
        dtype(type),
        shift(static_cast<int>(reinterpret_cast<intptr_t>(memory) / size_of(type) % pack_size)) {}
  // Returns true if a pack may begin at an element.
  __device__ bool allows_packs(int64_t element) const { return (shift + element) % pack_size == 0; }

  void* data = nullptr;
  DType dtype = DType::f32;
  int shift = 0;  // elements since an address that is a multiple of 8 of them
};

// Memory of the compute type itself, such as partial results.
inline Operand operand(float* data) { return {data, DType::f32}; }
inline Operand operand(double* data) { return {data, DType::f64}; }

// Returns one element; `absent` if there is no operand.
template <class C>
__device__ C load_one(const Operand& x, int64_t i, C absent = C(0)) {
  C value = absent;
  if (x.data)
    visit_floating(x.dtype,
                   [&](auto* type) { value = load<C>(static_cast<decltype(type)>(x.data) + i); });
  return value;
}
template <class C>
__device__ void store_one(const Operand& y, int64_t i, C value) {
  if (!y.data) return;
  visit_floating(y.dtype,
                 [&](auto* type) { store(static_cast<decltype(type)>(y.data) + i, value); });
}

// A thread's elements of a row: `packs` packs, the first at column `first`, which may lie before
// the row, the others `step` columns apart.
template <int packs, int step>
struct Share {
  static_assert(packs * pack_size <= 32);
  static constexpr int size = packs * pack_size;

  __device__ Share(int64_t first_column, int64_t columns) : first(first_column) {
#pragma unroll
    for (int k = 0; k < packs; ++k)
      mask |= bits_of_pack(column(k * pack_size), columns) << k * pack_size;
  }

  __device__ int64_t column(int element) const {
    return first + element / pack_size * step + element % pack_size;
  }
  __device__ bool has(int element) const { return mask >> element & 1; }
  __device__ uint32_t bits(int pack) const { return mask >> pack * pack_size & 0xFF; }
  __device__ bool has_all(int pack) const { return bits(pack) == 0xFF; }

  int64_t first;
  uint32_t mask = 0;  // a bit for each element that lies in the row

 private:
  // Returns a bit for each element in the row, of a pack that begins at `at`.
  static __device__ uint32_t bits_of_pack(int64_t at, int64_t columns) {
    const int64_t end = columns - at;
    if (at <= -pack_size || end <= 0) return 0;
    const uint32_t before_end = end >= pack_size ? 0xFF : (1u << int(end)) - 1;
    const uint32_t from_begin = at >= 0 ? 0xFF : 0xFFu << int(-at) & 0xFF;
    return before_end & from_begin;
  }
};

// Loads a pack whose address is not a multiple of 16 bytes, or with only the elements in `bits` in
// the row. The loop is short rather than fast, because it nearly always handles the ends of a row.
template <class C>
__device__ void load_edge(C* to, const Operand& x, int64_t at, uint32_t bits) {
#pragma unroll 1
  for (int i = 0; i < pack_size; ++i) {
    if (!(bits >> i & 1)) continue;
    const C value = load_one<C>(x, at + i);
#pragma unroll
    for (int j = 0; j < pack_size; ++j) to[j] = i == j ? value : to[j];  // keeps `to` in registers
  }
}
template <class C>
__device__ void store_edge(const Operand& y, int64_t at, uint32_t bits, const C* from) {
#pragma unroll 1
  for (int i = 0; i < pack_size; ++i) {
    if (!(bits >> i & 1)) continue;
    C value = from[0];
#pragma unroll
    for (int j = 1; j < pack_size; ++j) value = i == j ? from[j] : value;
    store_one(y, at + i, value);
  }
}

// Loads the packs of a share that are completely in the row. Elements that grow in conversion are
// converted once all loads are in flight; others are stored immediately.
template <class C, class T, int packs, int step>
__device__ void load_packs(C* to, const T* first, const Share<packs, step>& share) {
  constexpr bool convert_later = sizeof(T) < sizeof(C);
  Pack<T, pack_size> packed[packs];
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    if (!share.has_all(k)) continue;
    packed[k].load(first + k * step);
    if constexpr (!convert_later) packed[k].unpack(to + k * pack_size);
  }
#pragma unroll
  for (int k = 0; k < packs; ++k)
    if (convert_later && share.has_all(k)) packed[k].unpack(to + k * pack_size);
}

// Sets to[e] = element e of a thread's share of the row that begins at element `begin` of x;
// `outside` if there is none, or x is absent.
template <class C, int packs, int step>
__device__ void load_share(C (&to)[packs * pack_size], const Operand& x, int64_t begin,
                           const Share<packs, step>& share, C outside) {
#pragma unroll
  for (int e = 0; e < packs * pack_size; ++e) to[e] = outside;
  if (!x.data) return;
  const bool in_packs = x.allows_packs(begin + share.first);
  if (in_packs)
    visit_floating(x.dtype, [&]<class T>(T*) {
      load_packs(to, static_cast<const T*>(x.data) + begin + share.first, share);
    });
#pragma unroll
  for (int k = 0; k < packs; ++k)
    if (share.bits(k) != 0 && !(in_packs && share.has_all(k)))
      load_edge(to + k * pack_size, x, begin + share.column(k * pack_size), share.bits(k));
}

// Stores a thread's share of a row of y.
template <class C, int packs, int step>
__device__ void store_share(const Operand& y, int64_t begin, const Share<packs, step>& share,
                            const C (&from)[packs * pack_size]) {
  const bool in_packs = y.allows_packs(begin + share.first);
  if (in_packs)
    visit_floating(y.dtype, [&]<class T>(T*) {
      T* first = static_cast<T*>(y.data) + begin + share.first;
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        if (!share.has_all(k)) continue;
        Pack<T, pack_size> packed;
        packed.pack(from + k * pack_size);
        packed.store(first + k * step);
      }
    });
#pragma unroll
  for (int k = 0; k < packs; ++k)
    if (share.bits(k) != 0 && !(in_packs && share.has_all(k)))
      store_edge(y, begin + share.column(k * pack_size), share.bits(k), from + k * pack_size);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
