// The bound for speed comparisons: the current rate of oneDNN's own matmul on this machine for the
// shapes of a training step. It calls the library directly, without our kernels, in the layouts of
// training: rows of activations, weights (out, in), nothing prepacked.
#pragma once

#include "kernels/arguments/view.h"

#include <cstdint>
#include <vector>

namespace booster::benchmarks {

// out (m, n) = a (m, k) b (k, n), `count` times per step; a transposed operand is column-major.
struct MatmulShape {
  int64_t m, n, k;
  int64_t count = 1;
  DType dtype = DType::f32;
  bool a_transposed = false, b_transposed = false;

  double gflop() const { return 2e-9 * m * n * k * count; }
};

// Returns a linear layer's matrix products in a training step: y = x w^T, dx = g w, dw = g^T x.
std::vector<MatmulShape> linear_shapes(int64_t rows, int64_t in, int64_t out, DType dtype,
                                       int64_t count = 1);

// Returns the matrix products of a ViT's training step: blocks (qkv, projection, MLP of 4 x width),
// patch embedding and a head of `classes`. Leaves out attention's own small products.
struct VitSize {
  int64_t width, depth, patches = 196, patch_values = 768, classes = 1000;
};
std::vector<MatmulShape> vit_shapes(const VitSize& size, int64_t batch, DType dtype);

double total_gflop(const std::vector<MatmulShape>& shapes);

// Returns the seconds of one product, the shortest of `runs`, by oneDNN and by our matmul kernel,
// alternating. Measures f16, and bf16 if the processor lacks it, in f32, which their products use.
struct ShapeTimes {
  double library, kernel;
};
ShapeTimes measure(const MatmulShape& shape, int runs);

// Returns oneDNN's GFLOP/s for the whole list: all FLOPs / sum of count x seconds.
double measure_bound(const std::vector<MatmulShape>& shapes, int runs = 5);

}  // namespace booster::benchmarks
