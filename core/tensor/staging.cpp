#include "core/tensor/staging.h"

#include "core/tensor/memory/allocator.h"
#include "kernels/device/cuda_module.h"
#include "kernels/device/memory.h"
#include "kernels/host/recording.h"
#include "platform/error.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace booster {
namespace {

using kernels::CudaModule;
using kernels::Event;

struct StagingBuffer {
  void* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<Event> until;  // end of its last use; null: free now
};

// The buffers that are not in use.
class FreeBuffers {
 public:
  // Takes a buffer that `fits`, at least that large and at most twice as large; empty if there is
  // none.
  template <class Fits>
  StagingBuffer take(size_t bytes, Fits&& fits) {
    const auto found = std::ranges::find_if(buffers_, [&](const StagingBuffer& each) {
      return each.bytes >= bytes && each.bytes / 2 <= bytes && fits(each);
    });
    if (found == buffers_.end()) return {};
    StagingBuffer buffer = std::move(*found);
    buffers_.erase(found);
    return buffer;
  }
  void give(StagingBuffer buffer) { buffers_.push_back(std::move(buffer)); }
  const std::vector<StagingBuffer>& all() const { return buffers_; }

 private:
  std::vector<StagingBuffer> buffers_;
};

size_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<size_t>(shape.numel() * size_of(dtype));
}

}  // namespace

struct Staging::Buffers {
  Buffers(Device on, MemoryTag use) : device(on), tag(use), cuda(kernels::cuda_module_for(on)) {}
  // Frees the buffers. Tensors hold a reference, so only copies can still use a buffer.
  ~Buffers() {
    for (const StagingBuffer& each : of_host.all()) {
      try {
        if (each.until) each.until->wait();
      } catch (const Error&) {  // the GPU has failed
      }
      cuda.free_pinned(each.data);
    }
    for (const StagingBuffer& each : of_device.all()) release(device, each.data, each.bytes, tag);
  }
  Buffers(const Buffers&) = delete;

  void give_of_host(void* data, size_t bytes) {
    std::lock_guard lock(mutex);
    StagingBuffer buffer{data, bytes, nullptr};
    buffer.until = std::move(copies.extract(data).mapped());
    of_host.give(std::move(buffer));
  }
  // Takes back GPU memory, which queued kernels may still read.
  void give_of_device(void* data, size_t bytes) {
    StagingBuffer buffer{data, bytes, nullptr};
    try {
      buffer.until = cuda.mark(device.index, nullptr);
    } catch (const Error&) {  // the GPU has failed
    }
    std::lock_guard lock(mutex);
    of_device.give(std::move(buffer));
  }

  const Device device;
  const MemoryTag tag;
  const CudaModule& cuda;
  std::mutex mutex;
  FreeBuffers of_host, of_device;
  // The last copy from each host buffer in use; null before the first.
  std::map<void*, std::shared_ptr<Event>> copies;
};

Staging::Staging(Device device, MemoryTag tag) : buffers_(std::make_shared<Buffers>(device, tag)) {}

// Returns a host buffer; skips those that are still being copied, so that the host does not wait.
Tensor Staging::to_fill(const Shape& shape, DType dtype) const {
  const size_t bytes = bytes_of(shape, dtype);
  StagingBuffer buffer;
  {
    std::lock_guard lock(buffers_->mutex);
    buffer = buffers_->of_host.take(
        bytes, [](const StagingBuffer& each) { return !each.until || each.until->is_past(); });
  }
  if (!buffer.data)
    buffer = {buffers_->cuda.allocate_pinned(buffers_->device.index, bytes), bytes, nullptr};
  if (!buffer.data) return empty(shape, {.dtype = dtype});  // the system pins no more memory
  {
    std::lock_guard lock(buffers_->mutex);
    buffers_->copies[buffer.data] = nullptr;
  }
  return from_memory(
      buffer.data, shape, {.dtype = dtype},
      [all = buffers_, data = buffer.data, size = buffer.bytes] { all->give_of_host(data, size); });
}

Tensor Staging::on_device(const Tensor& filled) const {
  kernels::refuse_to_record(
      "a batch's copy to a GPU", "because a replay would not copy anew",
      "a tensor that exists before the capture, and copy_ before each replay");
  const size_t bytes = bytes_of(filled.shape(), filled.dtype());
  const Device device = buffers_->device;
  StagingBuffer target;
  {
    std::lock_guard lock(buffers_->mutex);
    target = buffers_->of_device.take(bytes, [](const StagingBuffer&) { return true; });
  }
  // Queued kernels may still use a block of the allocator.
  if (!target.data)
    target = {allocate(device, bytes, buffers_->tag), bytes,
              buffers_->cuda.mark(device.index, nullptr)};
  const Tensor there = from_memory(target.data, filled.shape(), {filled.dtype(), device},
                                   [all = buffers_, data = target.data, size = target.bytes] {
                                     all->give_of_device(data, size);
                                   });
  auto copied = buffers_->cuda.copy_beside(device.index, target.data, filled.data(), bytes,
                                           target.until.get());
  std::lock_guard lock(buffers_->mutex);
  if (const auto known = buffers_->copies.find(filled.data()); known != buffers_->copies.end())
    known->second = std::move(copied);
  return there;
}

Tensor Staging::on_host(const Tensor& there) const {
  const Tensor here = to_fill(there.shape(), there.dtype());
  kernels::device_copy(here.data(), Device{}, there.data(), there.device(),
                       static_cast<size_t>(there.bytes()));
  return here;
}

}  // namespace booster
