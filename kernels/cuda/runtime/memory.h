// Memory of GPUs. The functions up to copy() implement kernels/device/memory.h for CUDA devices;
// the others are for arguments and partial results of one kernel call. Thread-safe.
#pragma once

#include <cstddef>
#include <string>

namespace booster::kernels::cuda {

// Allocates memory. Returns nullptr if the device has no more; throws if there is no such device.
void* allocate(int device, size_t bytes);
// The same; tries again after caches have returned their memory.
void* allocate_or_release(int device, size_t bytes);
void free(int device, void* data);
// Copies between host and devices in any direction; returns when the bytes have arrived.
void copy(void* to, const void* from, size_t bytes);
// Makes copy() throw an error with this reason from now on, because an aborted operation made the
// device's memory invalid.
void refuse_copies(const std::string& reason);

// Returns memory of the device in use for the duration of one kernel call; return the last one
// first. The calling thread's next call gets the same memory, which the stream's order makes safe.
// It grows to the largest call and is kept, so that a step in steady state allocates nothing.
void* take_scratch(size_t bytes);
void give_scratch(size_t bytes);
// Scratch memory while it lives; none for 0 bytes.
class TakenScratch {
 public:
  explicit TakenScratch(size_t bytes)
      : bytes_(bytes), data_(bytes ? take_scratch(bytes) : nullptr) {}
  ~TakenScratch() {
    if (data_) give_scratch(bytes_);
  }
  TakenScratch(const TakenScratch&) = delete;
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};
// Sets `release`, which returns a cache's free memory to the device.
void on_shortage(void (*release)());

// Copies the bytes with the call. They may change once it returns, and recorded work keeps them for
// its replays. For tables of a few KB.
void upload_queued(void* to, const void* from, size_t bytes);

}  // namespace booster::kernels::cuda
