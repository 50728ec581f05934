// The functions of core/autograd/functions.h that are members of Tensor, and those of Tensors that
// a tape records.
#include "core/autograd/functions.h"
#include "core/tensor/tensors.h"

namespace booster {

#define UNARY(name, ...) \
  Tensor Tensor::name() const { return booster::name(*this); }
#define BINARY(name, ...)                                                                \
  Tensor Tensor::name(const Tensor& other) const { return booster::name(*this, other); } \
  Tensor Tensor::name(double other) const { return booster::name(*this, other); }
#include "kernels/elementwise.def"

Tensor Tensor::clamp(std::optional<double> low, std::optional<double> high) const {
  return booster::clamp(*this, low, high);
}

Tensor Tensor::sum(const Dims& dims, bool keep_dims) const {
  return booster::sum(*this, dims.all(), keep_dims);
}
Tensor Tensor::mean(const Dims& dims, bool keep_dims) const {
  return booster::mean(*this, dims.all(), keep_dims);
}
Tensor Tensor::var(const Dims& dims, bool unbiased, bool keep_dims) const {
  return booster::var(*this, dims.all(), unbiased, keep_dims);
}
Tensor Tensor::stddev(const Dims& dims, bool unbiased, bool keep_dims) const {
  return booster::stddev(*this, dims.all(), unbiased, keep_dims);
}
Tensor Tensor::norm(const Dims& dims, bool keep_dims, double p) const {
  return booster::norm(*this, dims.all(), keep_dims, p);
}

Tensor Tensor::max() const { return booster::max(*this); }
Tensor Tensor::min() const { return booster::min(*this); }
std::pair<Tensor, Tensor> Tensor::max(int64_t dim, bool keep_dim) const {
  return booster::max(*this, dim, keep_dim);
}
std::pair<Tensor, Tensor> Tensor::min(int64_t dim, bool keep_dim) const {
  return booster::min(*this, dim, keep_dim);
}
Tensor Tensor::argmax() const { return booster::argmax(*this); }
Tensor Tensor::argmin() const { return booster::argmin(*this); }
Tensor Tensor::argmax(int64_t dim, bool keep_dim) const {
  return booster::argmax(*this, dim, keep_dim);
}
Tensor Tensor::argmin(int64_t dim, bool keep_dim) const {
  return booster::argmin(*this, dim, keep_dim);
}

Tensor Tensor::cumsum(int64_t dim) const { return booster::cumsum(*this, dim); }
Tensor Tensor::matmul(const Tensor& other) const { return booster::matmul(*this, other); }

Tensor Tensor::reshape(const Shape& shape) const { return booster::reshape(*this, shape); }
Tensor Tensor::view(const Shape& shape) const {
  const Tensor y = booster::reshape(*this, shape);
  check(y.shares_storage(*this),
        "view: the elements are not in order; got shape {} and strides {}, want reshape",
        this->shape(), strides());
  return y;
}
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  return booster::flatten(*this, start_dim, end_dim);
}
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  return booster::transpose(*this, dim0, dim1);
}
Tensor Tensor::t() const {
  check(ndim() <= 2, "t: want at most two dimensions; got {} (transpose takes more)", shape());
  return ndim() < 2 ? *this : booster::transpose(*this, 0, 1);
}
Tensor Tensor::permute(const std::vector<int>& order) const {
  return booster::permute(*this, order);
}
Tensor Tensor::expand(const Shape& shape) const { return booster::expand(*this, shape); }
Tensor Tensor::squeeze(int64_t dim) const { return booster::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(int64_t dim) const { return booster::unsqueeze(*this, dim); }
Tensor Tensor::contiguous() const { return booster::contiguous(*this); }

Tensors Tensors::to(Device device) const {
  return map([device](const Tensor& x) { return x.to(device); });
}

}  // namespace booster
