// GPU instructions for which CUDA C++ has no function, one function each, for compute capability
// 8.0 and later. All lanes of a warp must call a function together. Exceptions are cp_async_16, the
// functions of one number and the conversions. The CPU emulator of CUDA has its own
// (tests/cuda_on_host/include/ptx.h).
//
// A matrix unit multiplies A (16 x 16) by B (16 x 8). Each lane holds some of their elements
// ("fragments"). A word has two elements of 16 bits; the one of the smaller row or column is the
// low half. With g = lane / 4 and t = lane % 4 * 2, the words of a lane are
//   of A: (row g, columns t, t + 1), (row g + 8, the same), (row g, columns t + 8, t + 9),
//         (row g + 8, the same);
//   of B: (rows t, t + 1, column g), (rows t + 8, t + 9, column g);
//   of the sums (16 x 8), f32: (row g, column t), (g, t + 1), (g + 8, t), (g + 8, t + 1).
#pragma once

#include "kernels/cuda/launch.cuh"

#ifndef PTX_IS_PLAYED

// A build for older GPUs compiles them, but does not run them (kernels/cuda/attention/choice.cpp).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define PTX(...) __trap()
#else
#define PTX(...) asm volatile(__VA_ARGS__)
#endif

namespace ptx {

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Loads four matrices (8 x 8) of 16-bit elements from the block's memory: lane 8 i + j has the
// address of row j of matrix i, 16 bytes. Word i: row g, columns t and t + 1 of matrix i;
// transposed, rows t and t + 1 of column g.
__device__ inline void ldmatrix_x4(uint32_t (&words)[4], const void* row) {
  PTX("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "r"(shared_address(row)));
}
__device__ inline void ldmatrix_x4_trans(uint32_t (&words)[4], const void* row) {
  PTX("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "r"(shared_address(row)));
}

// sums += A B
__device__ inline void mma_f16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  PTX("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_bf16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                uint32_t b1) {
  PTX("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Copies 16 bytes to the block's memory asynchronously: reads `bytes` (0 or 16) of them, and sets
// the others to 0. Both addresses are multiples of 16. The thread sees the bytes once it has waited
// for its copies; other threads see them after a following barrier.
__device__ inline void cp_async_16(void* shared, const void* from, int bytes) {
  PTX("cp.async.cg.shared.global [%0], [%1], 16, %2;"
      :
      : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(from)), "r"(bytes)
      : "memory");
}
__device__ inline void cp_async_wait_all() { PTX("cp.async.wait_all;" : : : "memory"); }

// Returns 2^x within 2 units in the last place; subnormal results become 0.
__device__ inline float ex2_approx(float x) {
  float y = 0;
  PTX("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns the larger number, or the number if the other is nan.
__device__ inline float larger(float x, float y) {
  float z = 0;
  PTX("max.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

// Rounds two numbers to nearest even, into the halves of a word.
__device__ inline uint32_t cvt_f16x2(float high, float low) {
  uint32_t word = 0;
  PTX("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline uint32_t cvt_bf16x2(float high, float low) {
  uint32_t word = 0;
  PTX("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

}  // namespace ptx

#endif
