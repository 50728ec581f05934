#include "tests/cuda_on_host/chance.h"

#include <cstdlib>

namespace cuda_on_host {
namespace {

uint64_t chosen_seed() {
  const char* text = std::getenv("CUDA_ON_HOST_SEED");
  return text && *text ? std::strtoull(text, nullptr, 10) : 1;
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
