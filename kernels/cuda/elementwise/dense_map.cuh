// Elementwise work in quads: four neighbouring elements that a thread reads and writes with one
// instruction for each operand (16 bytes of f32, 8 of f16 and bf16). A thread has two quads a
// block's width apart. A warp's accesses are thus dense, with two in flight, and the dtype is
// resolved once for eight elements.
#pragma once

#include "kernels/cuda/pack.cuh"
#include "kernels/walks/walk.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int quads_per_thread = 2;
inline constexpr int64_t quads_per_block = int64_t(quads_per_thread) * threads_per_block;

// The elements of a walk that are handled as quads: head, head + 1, ... head + 4 count - 1.
struct Quads {
  int64_t head = 0;
  int64_t count = 0;  // 0: quads are impossible for the operands
  KERNEL_FN int64_t blocks() const { return (count + quads_per_block - 1) / quads_per_block; }
};

// Calls f with a typed null pointer that represents a dtype that quads may have.
template <class F>
KERNEL_FN void visit_quad(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16: return f(static_cast<f16*>(nullptr));
    case DType::bf16: return f(static_cast<bf16*>(nullptr));
    case DType::boolean: return f(static_cast<bool*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

inline bool may_be_quad(DType dtype) {
  return dtype == DType::f32 || is_16_bit(dtype) || dtype == DType::boolean;
}

// Returns true if operand k (strides in bytes) has aligned quads from element `head` on, or is one
// value for a whole run.
inline bool has_quads_from(const Walk& walk, int k, int64_t head) {
  const int last = walk.ndim - 1;
  const int64_t size = size_of(walk.dtypes[k]), stride = walk.strides[k][last];
  if (k > 0 && stride == 0) return true;
  if (stride != size || !may_be_quad(walk.dtypes[k])) return false;
  const auto address = reinterpret_cast<uint64_t>(walk.data[k]) + uint64_t(head * size);
  uint64_t all = address;
  for (int d = 0; d < last; ++d) all |= uint64_t(walk.strides[k][d]);
  return all % uint64_t(quad * size) == 0;
}

// Finds the first head with all operands aligned; only a walk of one run can have one.
inline Quads quads_of(const Walk& walk, int64_t size) {
  const bool one_run = walk.ndim == 1;
  if (!one_run && walk.shape[walk.ndim - 1] % quad != 0) return {};
  for (int64_t head = 0; head < (one_run ? quad : 1); ++head) {
    bool aligned = true;
    for (int k = 0; k < walk.operands; ++k) aligned &= has_quads_from(walk, k, head);
    if (aligned) return {head, size > head ? (size - head) / quad : 0};
  }
  return {};
}

// Loads in x[turn] the quad at p[turn], or the single value there; p[turn] is null for an unused
// turn.
__device__ inline void load_quads(float (*x)[quad], const char* const* p, DType dtype,
                                  bool one_value) {
  if (one_value) {
#pragma unroll
    for (int turn = 0; turn < quads_per_thread; ++turn)
      if (p[turn])
#pragma unroll
        for (int i = 0; i < quad; ++i) x[turn][i] = load_any<float>(p[turn], dtype, 0);
    return;
  }
  visit_quad(dtype, [&]<class T>(T*) {
#pragma unroll
    for (int turn = 0; turn < quads_per_thread; ++turn) {
      if (!p[turn]) continue;
      Pack<T, quad> values;
      values.load(reinterpret_cast<const T*>(p[turn]));
      values.unpack(x[turn]);
    }
  });
}

__device__ inline void store_quads(const char* const* p, DType dtype, const float (*x)[quad]) {
  visit_quad(dtype, [&]<class T>(T*) {
#pragma unroll
    for (int turn = 0; turn < quads_per_thread; ++turn) {
      if (!p[turn]) continue;
      Pack<T, quad> values;
      values.pack(x[turn]);
      values.store(reinterpret_cast<T*>(const_cast<char*>(p[turn])));
    }
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
