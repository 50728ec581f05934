// oneDNN behind one door: its engine, its limit of instruction set, its threads.
#pragma once

#include <string>

namespace booster::kernels::cpu {

// Keeps oneDNN within the instruction set of a forced CPU variant. Call before its first use.
void limit_library(const std::string& variant);

// "2.6.3", and the instruction set that oneDNN will use ("AVX512_CORE_BF16").
std::string library_version();
std::string library_isa();

}  // namespace booster::kernels::cpu
