#include "tests/cuda_on_host/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "cuda_on_host: fibers are written for x86-64 and aarch64"
#endif

// Saves the registers that a call must keep, and the stack pointer in *from; goes on at `to`.
extern "C" void cuda_on_host_switch(void** from, void* to);

#ifdef __x86_64__
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
#else
asm(R"(
.text
.hidden cuda_on_host_switch
.globl cuda_on_host_switch
.type cuda_on_host_switch, %function
cuda_on_host_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size cuda_on_host_switch, .-cuda_on_host_switch
)");
#endif

namespace cuda_on_host {
namespace {

// The registers that the first switch to a fiber takes from its stack; all 0 but the address at
// which it goes on.
#ifdef __x86_64__
constexpr size_t saved_words = 7, return_word = 6;
constexpr size_t above = 1;  // a called function finds the stack 8 bytes off a multiple of 16
#else
constexpr size_t saved_words = 20, return_word = 11;
constexpr size_t above = 0;
#endif

}  // namespace

Fiber::Fiber(void (*run)()) {
  void* memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  stack_ = static_cast<char*>(memory);
  auto* top = reinterpret_cast<uint64_t*>(stack_ + stack_bytes) - 2 - above;
  uint64_t* first = top - saved_words;
  first[return_word] = reinterpret_cast<uint64_t>(run);
  mine_ = first;
}

Fiber::~Fiber() { munmap(stack_, stack_bytes); }
void Fiber::enter() { cuda_on_host_switch(&theirs_, mine_); }
void Fiber::leave() { cuda_on_host_switch(&mine_, theirs_); }

}  // namespace cuda_on_host
