// A stack of its own on which code runs until it gives the processor back.
#pragma once

#include <cstddef>

namespace cuda_on_host {

class Fiber {
 public:
  // `run` never returns; it calls leave().
  explicit Fiber(void (*run)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  // Goes on with the fiber until it leaves.
  void enter();
  // Called on the fiber: goes back to where it was entered.
  void leave();
  bool holds(const void* address) const {
    const char* p = static_cast<const char*>(address);
    return p >= stack_ && p < stack_ + stack_bytes;
  }

 private:
  static constexpr size_t stack_bytes = 256 << 10;
  char* stack_;
  void* mine_;    // stack pointer while it does not run
  void* theirs_;  // that of the one who entered
};

}  // namespace cuda_on_host
