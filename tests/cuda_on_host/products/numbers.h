// The numbers that libraries which play NVIDIA's read and write on the device.
#pragma once

#include <cstdint>

namespace cuda_on_host {

enum class Number { e4m3, e5m2, f16, bf16, f32, f64 };

int64_t size_of(Number type);
double load(const void* at, Number type);
// Rounded once, to nearest even; not to 8 bits.
void store(void* at, Number type, double value);
float round_to_tf32(float x);

// Memory of the device that a call touches, open for this process from now on; a fault that begins
// with `call` and names `what` if it must not be touched, or is read and nobody has written it.
void open_for(const char* call, const char* what, const void* address, int64_t bytes, bool is_read);
// The same for what a call may write anything to.
void open_workspace(const char* call, void* address, int64_t bytes);
// Of an address, in bytes; 256 at most.
uint64_t alignment_of(const void* address);
// A fault if the address is no multiple of `bytes`.
void check_alignment(const char* call, const char* what, const void* address, uint64_t bytes);

}  // namespace cuda_on_host
