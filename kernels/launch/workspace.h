// Memory for the duration of one kernel call.
#pragma once

#include "kernels/host/host_memory.h"
#include "kernels/launch/launch.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/runtime/memory.h"
#endif

namespace booster::kernels::BOOSTER_VARIANT {

// A buffer that grows to the largest size requested and is kept, so that steady state allocates
// nothing. Declare it thread_local; the contents last until the next get().
class Scratch {
 public:
  constexpr Scratch() = default;
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Returns space for n values, 64-byte aligned.
  template <class C>
  C* get(int64_t n) {
    const int64_t bytes = n * static_cast<int64_t>(sizeof(C));
    if (bytes > bytes_) grow(bytes);
    return static_cast<C*>(data_);
  }

 private:
  void release() {
    if (data_) free_host(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  void grow(int64_t bytes) {
    release();
    data_ = allocate_scratch(static_cast<size_t>(bytes));
    bytes_ = bytes;
  }

  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Memory that kernels can access: a table written by the host, or space for partial results. On the
// CPU it is the table itself, or the thread's memory, so only one Workspace without a table may
// exist per thread and T. On a GPU it is the thread's scratch (take_scratch).
#ifdef BOOSTER_ON_GPU

template <class T>
class Workspace {
 public:
  explicit Workspace(int64_t n)
      : bytes_(static_cast<size_t>(n) * sizeof(T)),
        data_(static_cast<T*>(::booster::kernels::cuda::take_scratch(bytes_))) {}
  Workspace(const T* host, int64_t n) : Workspace(n) {
    static_assert(sizeof(T) % 8 == 0, "tables consist of words of 8 bytes");
    ::booster::kernels::cuda::upload_queued(data_, host, bytes_);
  }
  ~Workspace() { ::booster::kernels::cuda::give_scratch(bytes_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  T* data() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

#else

template <class T>
class Workspace {
 public:
  explicit Workspace(int64_t n) : data_(kept.template get<T>(n)) {}
  Workspace(const T* host, int64_t) : data_(const_cast<T*>(host)) {}
  T* data() const { return data_; }

 private:
  static inline thread_local Scratch kept;
  T* data_;
};

#endif

}  // namespace booster::kernels::BOOSTER_VARIANT
