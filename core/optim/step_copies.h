// Copies, for one optimizer step, of tensors that are not on the step's device. give_back() copies
// the written values to the originals. Tensors on that device are not copied. Lives as long as the
// step, on its thread.
#pragma once

#include "core/tensor/staging.h"

#include <optional>
#include <utility>
#include <vector>

namespace booster {

class StepCopies {
 public:
  // Makes copies for a step on `home`. `staging` belongs to the GPU of the other tensors; it is
  // empty until first used.
  StepCopies(Device home, std::optional<Staging>& staging) : home_(home), staging_(staging) {}

  // Returns x (dense) itself if it is at home, else a copy, for which the host waits. Undefined for
  // an undefined x.
  Tensor read(const Tensor& x);
  // Reads a number on the device `there`. Null for null.
  template <class T>
  const T* read(const T* number, Device there) {
    if (!number || there == home_) return number;
    const auto nobody = [] {};
    const Tensor x = from_memory(const_cast<T*>(number), {}, {dtype_of<T>(), there}, nobody);
    return static_cast<const T*>(read(x).data());
  }
  // Does as read, for a tensor that the step also writes.
  Tensor update(const Tensor& x);
  // Does as read, for a tensor that the step only writes. A copy has arbitrary values at first.
  Tensor overwrite(const Tensor& x);
  // Returns true if any copies were written. give_back() copies their values to the originals; do
  // not call it after a step without changes.
  bool wrote_any() const { return !written_.empty(); }
  void give_back() const;

 private:
  bool is_home(const Tensor& x) const { return !x.defined() || x.device() == home_; }
  const Staging& staging(const Tensor& x);

  Device home_;
  std::optional<Staging>& staging_;
  std::vector<Tensor> read_;                        // kernels of the step use this memory
  std::vector<std::pair<Tensor, Tensor>> written_;  // the original, and its copy
};

}  // namespace booster
