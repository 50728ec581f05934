// Runs the threads of a kernel's blocks one after another, each until it must wait for others, in a
// random order.
#pragma once

#include "tests/cuda_on_host/device/fiber.h"
#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <string>

namespace cuda_on_host {

// Ends early after a fault.
void run_launch(const Launch& launch);

// The stack of the thread that runs now, where most of what it accesses lies; empty outside of a
// kernel. Every access asks for it, so it must cost no call (as other models of thread_local do).
extern thread_local constinit Stack running_stack [[gnu::tls_model("initial-exec")]];

inline bool is_in_kernel() { return running_stack.bytes != 0; }
// " in block 3, thread 17 of <kernel>"; empty outside of one.
std::string where_in_kernel();
// Gives up the launch whose code runs now.
[[noreturn]] void end_launch();

// Who accesses memory: accesses of one launch are in order only within a thread, within a block if
// a barrier lies between them, and within a warp if its lanes have met in between.
struct Accessor {
  uint32_t launch;
  uint32_t block;
  uint16_t thread;
  uint16_t barriers;  // that the block has passed
  uint16_t meetings;  // of the warp's lanes
};
Accessor accessor();

// What a lane gives to its warp, for an instruction of all 32 lanes; returns what each gave, until
// the warp's next. It puts no accesses to memory in an order.
struct Gift {
  uint32_t words[12];
};
const Gift* gather_in_warp(const char* instruction, const Gift& mine);
// The running thread's number.
int thread_of_block();

// What kind of memory of the block an address is that does not lie on the running thread's stack.
enum class Place { elsewhere, other_stack, argument, shared };
Place place_of(const void* address);

}  // namespace cuda_on_host
