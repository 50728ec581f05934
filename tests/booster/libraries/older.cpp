// A library that claims to be built with another version of the headers, and prints a line when its
// code runs.
#include <cstdio>

extern "C" __attribute__((visibility("default"))) const char booster_abi_tag[];
const char booster_abi_tag[] = "booster-abi: 0.0.9 with libstdc++";

__attribute__((constructor)) static void run_at_load() { std::puts("code of libolder.so"); }
