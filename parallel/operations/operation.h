// Arguments and results of collectives: Buffer (the memory), OperationTag (its purpose) and Work (a
// handle to an operation that runs asynchronously). Buffers and tags are plain values.
#pragma once

#include "core/tensor/tensor.h"
#include "kernels/arguments/view.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
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

// --- OperationTag: distinguishes operations of the same form by their purpose.
//
// Ranks may go through their buckets, units or optimizers in different orders. Their calls have the
// same kind, size and dtype, so they would add up unrelated data. The same holds for ranks that
// alternate between two models, or that have gradients of different parameters. Their tags differ,
// so the call throws an error that names both.

// Sent between ranks as its bytes in memory.
struct OperationTag {
  enum Kind : uint32_t { none, bucket, unit, optimizer };
  Kind kind = none;
  uint32_t number = 0;
  uint32_t training = 0;  // sequence number of the training on these ranks
  uint32_t absent = 0;    // hash of a bucket's members without data; 0: all have data

  static OperationTag of(Kind kind, int64_t number, uint32_t training = 0) {
    return {.kind = kind, .number = static_cast<uint32_t>(number), .training = training};
  }
  OperationTag without(uint32_t members) const {
    OperationTag tag = *this;
    tag.absent = members;
    return tag;
  }
  // Returns "bucket 3", "bucket 3 of training 2", "bucket 3 without some gradients"; "" for none.
  std::string text() const {
    constexpr const char* names[] = {"", "bucket", "unit", "optimizer"};
    if (kind == none) return "";
    return fmt::format("{} {}{}{}", names[kind], number,
                       training == 0 ? "" : fmt::format(" of training {}", training + 1),
                       absent == 0 ? "" : fmt::format(" without some gradients ({:08x})", absent));
  }
  friend bool operator==(const OperationTag&, const OperationTag&) = default;
};

// The absent members of a bucket, added in order.
class AbsentMembers {
 public:
  void add(int64_t member) {
    hash_ = (hash_ ^ static_cast<uint32_t>(member + 1)) * 0x01000193;  // FNV-1a
    any_ = true;
  }
  uint32_t hash() const { return any_ ? hash_ | 1 : 0; }

 private:
  uint32_t hash_ = 0x811c9dc5;
  bool any_ = false;
};

// --- CollectiveOp: how ranks' values are combined. A mean of integers is an error; for bool, sum
// and max mean "any", min and prod mean "all".

enum class CollectiveOp : uint8_t { sum, mean, max, min, prod };
const char* name_of(CollectiveOp reduction);

// --- Work: a handle to an operation that runs asynchronously.

// Signals the completion of an operation: a flag of its own thread (work_queue.h), or an event on a
// device's stream. Thread-safe.
class Completion {
 public:
  virtual ~Completion() = default;
  // Orders the following work on `stream` after the operation. For host work it blocks this thread
  // until then; for a device it queues a wait in the stream. Throws the operation's error if it is
  // known.
  virtual void order(kernels::Stream stream) = 0;
  // Blocks this thread until the operation is complete. Throws its error, every time.
  virtual void synchronize() = 0;
  // Returns true once the operation is complete or has failed; then synchronize() does not block.
  virtual bool is_done() = 0;
};

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
  void wait(kernels::Stream stream) const {
    if (completion_) completion_->order(stream);
  }
  // Blocks until the operation is complete, on any device. Use it before the host reads the result.
  void synchronize() const {
    if (completion_) completion_->synchronize();
  }
  // Returns true once the operation is complete or has failed; then synchronize() does not block.
  bool is_done() const { return !completion_ || completion_->is_done(); }

 private:
  std::shared_ptr<Completion> completion_;
  kernels::Stream stream_;
};

}  // namespace booster
