// A separate stack on which code runs until it yields the processor.
#pragma once

#include <cstddef>

namespace cuda_on_host {

struct Stack {
  const char* begin;
  size_t bytes;
  bool holds(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - begin) < bytes;
  }
};

class Fiber {
 public:
  // `run` never returns; it calls leave().
  explicit Fiber(void (*run)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  // Continues the fiber until it leaves.
  void enter();
  // Called on the fiber: returns to the point where it was entered.
  void leave();
  Stack stack() const { return {stack_, stack_bytes}; }

 private:
  static constexpr size_t stack_bytes = 260 << 10;  // not a power of 2, as above
  char* stack_;
  void* mine_;    // the fiber's stack pointer while it is suspended
  void* theirs_;  // the stack pointer of the code that entered it
};

}  // namespace cuda_on_host
