#include "tests/cuda_on_host/device/chance.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

namespace cuda_on_host {
namespace {

// Draws a seed, which child processes inherit.
uint64_t draw_seed() {
  const uint64_t seed = std::random_device()();
  fmt::print(stderr, "cuda_on_host: CUDA_ON_HOST_SEED={}\n", seed);
  setenv("CUDA_ON_HOST_SEED", std::to_string(seed).c_str(), 1);
  return seed;
}

uint64_t chosen_seed() {
  const char* text = std::getenv("CUDA_ON_HOST_SEED");
  if (!text || !*text) return 1;
  return std::string_view(text) == "drawn" ? draw_seed() : std::strtoull(text, nullptr, 10);
}

}  // namespace

uint64_t seed_of_chance() {
  static const uint64_t seed = chosen_seed();
  return seed;
}

// SplitMix64 (Steele, Lea and Flood, OOPSLA'14).
uint64_t chance(uint64_t n) {
  static uint64_t state = seed_of_chance();
  uint64_t x = state += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return (x ^ (x >> 31)) % n;
}

}  // namespace cuda_on_host
