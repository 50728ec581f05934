// Many tensors as one argument, for kernels that walk all of them in one call.
#pragma once

#include "core/tensor/tensor.h"
#include "kernels/arguments/multi_tensor.h"

#include <vector>

namespace booster {

// The memory of dense tensors, which must outlive it.
class TensorSpans {
 public:
  explicit TensorSpans(const std::vector<Tensor>& tensors) {
    spans_.reserve(tensors.size());
    for (const Tensor& x : tensors) spans_.push_back({x.data(), x.numel(), x.dtype()});
  }
  operator kernels::MultiTensor() const {
    return {spans_.data(), static_cast<int64_t>(spans_.size())};
  }

 private:
  std::vector<kernels::TensorSpan> spans_;
};

}  // namespace booster
