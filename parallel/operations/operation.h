// What a collective takes and returns: Buffer (the memory) and Work (a handle to an operation that
// runs asynchronously). Buffers are plain values.
#pragma once

#include "core/tensor/tensor.h"
#include "kernels/arguments/view.h"
#include "platform/error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace booster {

// --- A collective's view of memory: a pointer, an element count and a dtype; contiguous, on a
// device.

// Made from a Tensor it keeps the tensor's memory alive. Other memory must stay alive until the
// operation that uses it is complete.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::f32;
  Device device = {};
  Reference<Storage> storage;  // the tensor's; null for other memory

  Buffer() = default;
  Buffer(void* data, int64_t count, DType dtype, Device device = {})
      : data(data), count(count), dtype(dtype), device(device) {
    check(count >= 0, "Buffer: a count is negative; got {}, want 0 or more", count);
    check(data || count == 0, "Buffer: null pointer; got one with {} elements", count);
  }
  // Throws if the view is not contiguous.
  Buffer(const kernels::View& view);  // NOLINT: a view converts to a buffer implicitly
  Buffer(const Tensor& tensor);       // NOLINT: likewise
  template <class T>
  Buffer(std::vector<T>& values)  // NOLINT: likewise
      : Buffer(values.data(), static_cast<int64_t>(values.size()), dtype_of<T>()) {}

  int64_t bytes() const { return count * size_of(dtype); }
  // Only for the CPU.
  std::span<std::byte> all() const { return part(0, count); }
  // Returns `length` elements from element `first` on.
  std::span<std::byte> part(int64_t first, int64_t length) const {
    const int64_t item = size_of(dtype);
    return {static_cast<std::byte*>(data) + first * item, static_cast<size_t>(length * item)};
  }
  // Marks the values as changed: raises the tensor's version. Call it on the tensor's thread.
  void note_change() const {
    if (storage) ++storage->version;
  }
};

// --- CollectiveOp: how ranks' values are combined. A mean of integers is an error; for bool, sum
// and max mean "any", min and prod mean "all".

enum class CollectiveOp : uint8_t { sum, mean, max, min, prod };
const char* name_of(CollectiveOp reduction);

// --- Work: a handle to an operation that runs asynchronously.

class Completion;  // completion.h

// Copies share one operation. Thread-safe. Until wait() returns, do not access the operation's
// outputs or change its inputs.
class Work {
 public:
  // A finished operation.
  Work() = default;
  // `stream`: where the operation's buffers are used next.
  explicit Work(std::shared_ptr<Completion> completion, kernels::Stream stream = {})
      : completion_(std::move(completion)), stream_(stream) {}

  // Orders the caller's next work on the buffers' device after the operation. In host memory it
  // blocks until the operation is complete; on a device with streams it need not. Throws the
  // operation's error, every time.
  void wait() const { wait(stream_); }
  // Orders the next work on another stream of that device.
  void wait(kernels::Stream stream) const;
  // Blocks until the operation is complete, on any device. Use it before the host reads the result.
  void synchronize() const;
  // Returns true once the operation is complete or has failed; then synchronize() does not block.
  bool is_done() const;

 private:
  std::shared_ptr<Completion> completion_;
  kernels::Stream stream_;
};

}  // namespace booster
