// Casts of tensors that do not change, such as a model's weights in inference, for any number of
// threads.
//
// Outside a Scope, a leaf's 16-bit copy lies in the leaf's tape state, which is for one thread. In
// one, casts write nothing to the tensors that they read.
#pragma once

#include "core/tensor/tensor.h"

#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace booster {

// Thread-safe, while no thread writes to the constants.
class ConstantCasts {
 public:
  explicit ConstantCasts(const std::vector<Tensor>& constants);

  // Returns x in this dtype, off the tape. A constant is converted once, and again if its values
  // have changed since.
  Tensor cast(const Tensor& x, DType dtype);

  // Makes the calling thread's casts use `casts` while it lives. Gradients must be off.
  class Scope {
   public:
    explicit Scope(ConstantCasts& casts);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ConstantCasts* before_;
  };
  // Returns the calling thread's; null: none.
  static ConstantCasts* current();

 private:
  struct Copy {
    DType dtype;
    Tensor values;
    uint32_t version;
  };
  // A constant and its copies, one for each dtype.
  struct Entry {
    Tensor constant;
    std::vector<Copy> copies;
  };
  static Tensor current_copy(const Entry& entry, DType dtype);

  std::shared_mutex mutex_;  // of the entries' copies
  std::unordered_map<const TensorBody*, Entry> entries_;
};

}  // namespace booster
