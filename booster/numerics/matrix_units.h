// Gives advice on matrix units (tensor cores): finds layers with unsuitable sizes, and their cost.
// gpu_capability.h reports whether a GPU has such units for a dtype.
//
// Source: NVIDIA's guides, which want M, N and K to be multiples of 16 bytes (8 elements of f16, 16
// of fp8; multiples of 64 f16 elements are best on A100). For one thread.
#pragma once

#include "booster/numerics/findings.h"
#include "core/autograd/op_policy.h"

#include <map>
#include <span>
#include <string>

namespace booster::numerics {

// A product of an M x K matrix and a K x N matrix; for a convolution, K and N are its channels.
struct ProductSizes {
  std::string op;
  int64_t m = 0, n = 0, k = 0;
  int64_t calls = 0;
  double flop = 0;  // of all calls
  bool fp8 = false;
};

class MatrixUnits {
 public:
  // Records the arguments of linear, matmul, attention or conv2d; ignores other ops.
  void see(Op op, const std::string& layer, std::span<Tensor* const> arguments);
  // Records a linear layer that multiplies in fp8.
  void see_fp8(const std::string& layer, const Tensor& x, const Tensor& weight);

  const std::map<std::string, ProductSizes>& layers() const { return layers_; }
  // Adds one finding per layer with unsuitable sizes: which sizes, the padding needed, the work
  // that padding adds, and the layer's share of all multiplications.
  void add_to(Findings& findings, int64_t step) const;

 private:
  void add(const std::string& layer, ProductSizes sizes, double flop);

  std::map<std::string, ProductSizes> layers_;
  bool convolutions_ = false;
};

}  // namespace booster::numerics
