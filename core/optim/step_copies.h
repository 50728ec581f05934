// What a step needs that does not lie where it runs: it gets copies there, and the numbers that it
// writes go back when it is over. Where all lies there nothing is copied. Lives as long as the
// step; for its thread.
#pragma once

#include "core/tensor/staging.h"

#include <optional>
#include <utility>
#include <vector>

namespace booster {

class StepCopies {
 public:
  // The step runs on `home`. `staging` is that of the GPU where other tensors are; empty until it
  // is first used.
  StepCopies(Device home, std::optional<Staging>& staging) : home_(home), staging_(staging) {}

  // A dense x itself, if it is at home, or a copy of its numbers, for which the host waits.
  // Undefined for an undefined x.
  Tensor read(const Tensor& x);
  // A number that lies on the device `there`. Null for null.
  template <class T>
  const T* read(const T* number, Device there) {
    if (!number || there == home_) return number;
    const auto nobody = [] {};
    const Tensor x = from_memory(const_cast<T*>(number), {}, {dtype_of<T>(), there}, nobody);
    return static_cast<const T*>(read(x).data());
  }
  // The same for one that is written, too.
  Tensor update(const Tensor& x);
  // The same for one that is written alone: a copy holds any numbers at first.
  Tensor overwrite(const Tensor& x);
  // Whether there are copies that were written; give_back() brings their numbers to where they
  // belong, which nobody wants of a step that changed nothing.
  bool wrote_any() const { return !written_.empty(); }
  void give_back() const;

 private:
  bool is_home(const Tensor& x) const { return !x.defined() || x.device() == home_; }
  const Staging& staging(const Tensor& x);

  Device home_;
  std::optional<Staging>& staging_;
  std::vector<Tensor> read_;                        // kernels of the step use their memory
  std::vector<std::pair<Tensor, Tensor>> written_;  // where it is, and its copy
};

}  // namespace booster
