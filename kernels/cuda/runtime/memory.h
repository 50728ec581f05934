// Memory of GPUs. The first three are what kernels/device/memory.h does for a CUDA device; the
// others are for arguments and partial results of one kernel call. Thread-safe.
#pragma once

#include <cstddef>
#include <string>

namespace booster::kernels::cuda {

// nullptr if the device has no more; error if there is no such device.
void* allocate(int device, size_t bytes);
// The same; tries again once the memory that others keep was given back.
void* allocate_or_release(int device, size_t bytes);
void free(int device, void* data);
// Between host and devices in any direction; returns when the bytes have arrived.
void copy(void* to, const void* from, size_t bytes);
// From now on copy() raises an error with this reason: an operation was given up, so that what the
// device holds is not what the program computed.
void refuse_copies(const std::string& reason);

// Memory for the duration of one kernel call, of the device in use: what is taken last is given
// back first. The calling thread's next call has the same memory, and the stream's order keeps them
// apart; it grows to the largest call and is kept, so that a step in steady state allocates
// nothing.
void* take_scratch(size_t bytes);
void give_scratch(size_t bytes);
// The same while it lives; of 0 bytes there is none.
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
// `release` gives back to the device what a cache keeps for later.
void on_shortage(void (*release)());

// The bytes travel with the call: they may be changed once it returns, and work that is recorded
// and replayed keeps them. For tables of some KB.
void upload_queued(void* to, const void* from, size_t bytes);

}  // namespace booster::kernels::cuda
