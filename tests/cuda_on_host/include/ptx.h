// The GPU instructions of kernels/cuda/ptx.cuh for host compilers: the same functions with the
// layouts of PTX's documents. Each lane gives its data to all lanes of its warp. Meeting for such
// an instruction does not order memory accesses.
#pragma once

#include <cstdint>

#define PTX_IS_PLAYED

namespace ptx {

void ldmatrix_x4(uint32_t (&words)[4], const void* row);
void ldmatrix_x4_trans(uint32_t (&words)[4], const void* row);
void mma_f16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void mma_bf16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void cp_async_16(void* shared, const void* from, int bytes);
void cp_async_wait_all();
float ex2_approx(float x);
float larger(float x, float y);
uint32_t cvt_f16x2(float high, float low);
uint32_t cvt_bf16x2(float high, float low);

}  // namespace ptx
