// The element types that the emulated NVIDIA libraries read and write on the device.
#pragma once

#include <cstdint>

namespace cuda_on_host {

enum class Number { e4m3, e5m2, f16, bf16, f32, f64 };

int64_t size_of(Number type);
double load(const void* at, Number type);
// Rounds once, to nearest even; does not support 8 bits.
void store(void* at, Number type, double value);
float round_to_tf32(float x);

// Opens device memory for a call, for this process, from now on. Reports a fault if the call must
// not access the memory or reads unwritten memory; its text begins with `call` and names `what`.
void open_for(const char* call, const char* what, const void* address, int64_t bytes, bool is_read);
// Does the same for memory that a call may write freely.
void open_workspace(const char* call, void* address, int64_t bytes);
// Returns the alignment of an address in bytes, at most 256.
uint64_t alignment_of(const void* address);
// Reports a fault if the address is not a multiple of `bytes`.
void check_alignment(const char* call, const char* what, const void* address, uint64_t bytes);

}  // namespace cuda_on_host
