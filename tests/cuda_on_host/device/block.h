// Runs the threads of a kernel's blocks one after another, in random order. Each runs until it must
// wait for others.
#pragma once

#include "tests/cuda_on_host/device/fiber.h"
#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <string>

namespace cuda_on_host {

// Ends early after a fault.
void run_launch(const Launch& launch);

// The stack of the running thread, which most of its accesses hit; empty outside of a kernel. Every
// access reads it, so reading it must not cost a call (as in other models of thread_local).
extern thread_local constinit Stack running_stack [[gnu::tls_model("initial-exec")]];

inline bool is_in_kernel() { return running_stack.bytes != 0; }
// Returns " in block 3, thread 17 of <kernel>"; "" outside of a kernel.
std::string where_in_kernel();
// Aborts the launch whose code is running.
[[noreturn]] void end_launch();

// The origin of a memory access. Accesses of one launch are ordered within a thread. A barrier
// between them orders accesses within a block, and a meeting of lanes those within a warp.
struct Accessor {
  uint32_t launch;
  uint32_t block;
  uint16_t thread;
  uint16_t barriers;  // passed by the block
  uint16_t meetings;  // of the warp's lanes
};
Accessor accessor();

// Exchanges data between the 32 lanes of a warp for one instruction. Returns what each lane gave,
// valid until the warp's next exchange. It does not order memory accesses.
struct Gift {
  uint32_t words[12];
};
const Gift* gather_in_warp(const char* instruction, const Gift& mine);
// Returns the number of the running thread in its block.
int thread_of_block();

// Classifies an address that is not on the running thread's stack.
enum class Place { elsewhere, other_stack, argument, shared };
Place place_of(const void* address);

}  // namespace cuda_on_host
