// The contents of cuBLASLt's descriptors, and the products that they describe.
#pragma once

#include "tests/cuda_on_host/include/cublasLt.h"
#include "tests/cuda_on_host/products/numbers.h"

#include <cstdint>
#include <vector>

struct cuda_on_host_product {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType bias_type = CUDA_R_32F;
  bool has_bias_type = false;
  const void *a_scale = nullptr, *b_scale = nullptr;
};
struct cuda_on_host_matrix {
  cudaDataType type;
  int64_t rows, columns, leading;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};

namespace cuda_on_host {

using Matrix = cuda_on_host_matrix;
using Product = cuda_on_host_product;

inline constexpr const char* multiply = "cublasLtMatmul";

Number number_of(cudaDataType type);
int64_t size_of(cudaDataType type);

struct Operand {
  Matrix matrix;
  const char* data;
  bool transposed;
  const char* at(int64_t batch, int64_t row, int64_t column) const;
  void open_all(bool is_read, const char* what) const;
  int64_t rows() const { return transposed ? matrix.columns : matrix.rows; }
  int64_t columns() const { return transposed ? matrix.rows : matrix.columns; }
};

// The arguments of a cublasLtMatmul call, by value, since it is computed later, in f64 or in f32.
struct QueuedProduct {
  Product product;
  Operand a, b, c, d;
  double alpha, beta;
  char* workspace;
  size_t workspace_bytes;

  void compute() const;

 private:
  template <class C>
  C factor(const Operand& operand, int64_t batch, int64_t row, int64_t column) const;
  template <class C>
  std::vector<C> factors_of(const Operand& operand, int64_t batch) const;
  template <class C>
  void compute_in() const;
};

}  // namespace cuda_on_host
