// Global oneDNN settings: its engine, its instruction-set limit, its threads.
#pragma once

#include <cstdint>
#include <string>

namespace booster::kernels::cpu {

// Keeps oneDNN within the instruction set of a forced CPU variant. Call before its first use.
void limit_library(const std::string& variant);

// Return the version, such as "2.6.3", and oneDNN's instruction set ("AVX512_CORE_BF16").
std::string library_version();
std::string library_isa();

// Returns the bytes of scratch memory that the threads keep for library calls (see primitive.h).
int64_t scratch_bytes();

}  // namespace booster::kernels::cpu
