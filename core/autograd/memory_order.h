// A tensor with its dimensions in the order of its memory. New tensors of its shape are thus
// written in the order in which it is read. Ops on it are recorded as usual. Belongs to one thread.
#pragma once

#include "core/autograd/functions.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace booster {

class MemoryOrder {
 public:
  explicit MemoryOrder(const Tensor& given) : x_(given) {
    const int n = given.ndim();
    if (n < 2 || given.is_contiguous()) return;
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    const Shape& strides = given.strides();
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return strides[a] > strides[b]; });
    if (std::is_sorted(order.begin(), order.end())) return;
    places_.resize(n);
    for (int i = 0; i < n; ++i) places_[order[i]] = i;
    x_ = permute(given, order);
  }
  // Returns the given tensor, or a view of it.
  const Tensor& x() const { return x_; }
  // Returns x()'s dimension that is the given tensor's `dim`, which counts from 0.
  int place(int dim) const { return places_.empty() ? dim : places_[dim]; }
  // Does the same for several dimensions, which may be negative.
  std::vector<int64_t> places(std::vector<int64_t> dims) const {
    for (int64_t& dim : dims) dim = place(static_cast<int>(dim < 0 ? dim + x_.ndim() : dim));
    return dims;
  }
  // Returns a tensor with x()'s number of dimensions in the given tensor's order.
  Tensor restored(const Tensor& y) const { return places_.empty() ? y : permute(y, places_); }

 private:
  Tensor x_;
  std::vector<int> places_;
};

}  // namespace booster
