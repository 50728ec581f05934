#include "tests/cuda_on_host/device/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

// Saves the callee-saved registers, and the stack pointer in *from; continues at `to`.
extern "C" void cuda_on_host_switch(void** from, void* to);

asm(R"(
.text
.hidden cuda_on_host_switch
.globl cuda_on_host_switch
.type cuda_on_host_switch, @function
cuda_on_host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_on_host_switch, .-cuda_on_host_switch
)");

namespace cuda_on_host {
namespace {

// The registers that the first switch to a fiber loads from its stack: all 0 except the return
// address.
constexpr size_t saved_words = 7, return_word = 6;
constexpr size_t above = 1;  // a called function's stack is 8 bytes off a multiple of 16

// Stacks that all begin at the same offset in a page would evict each other from the cache.
constexpr size_t line = 64, colours = 61;
size_t next_colour() {
  static size_t fibers = 0;
  return fibers++ % colours * line;
}

}  // namespace

Fiber::Fiber(void (*run)()) {
  void* memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  stack_ = static_cast<char*>(memory);
  auto* top = reinterpret_cast<uint64_t*>(stack_ + stack_bytes - next_colour()) - 2 - above;
  uint64_t* first = top - saved_words;
  first[return_word] = reinterpret_cast<uint64_t>(run);
  mine_ = first;
}

Fiber::~Fiber() { munmap(stack_, stack_bytes); }
void Fiber::enter() { cuda_on_host_switch(&theirs_, mine_); }
void Fiber::leave() { cuda_on_host_switch(&mine_, theirs_); }

}  // namespace cuda_on_host
