// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): block `n` of
// the stream `key` depends only on both, so any thread can draw any element.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

struct Philox {
  uint32_t word[4];
};

KERNEL_FN Philox philox(uint64_t key, uint64_t block) {
  uint32_t x0 = uint32_t(block), x1 = uint32_t(block >> 32), x2 = 0, x3 = 0;
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53u) * x0;
    const uint64_t b = uint64_t(0xCD9E8D57u) * x2;
    x0 = uint32_t(b >> 32) ^ x1 ^ k0;
    x1 = uint32_t(b);
    x2 = uint32_t(a >> 32) ^ x3 ^ k1;
    x3 = uint32_t(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{x0, x1, x2, x3}};
}

// Returns block `n` from a position on.
KERNEL_FN Philox random_block(RandomPosition position, uint64_t n) {
  const uint64_t* origin = position.origin;
  return philox(origin ? origin[0] : position.key,
                position.offset + (origin ? origin[1] : 0) + n);
}

// Returns the 32-bit number of element i at a position.
KERNEL_FN uint32_t random_bits(RandomPosition position, int64_t i) {
  return random_block(position, uint64_t(i) / 4).word[i % 4];
}

// Returns a number in [0, 1) with 24 bits, exact in f32.
KERNEL_FN float unit_float(uint32_t bits) { return float(bits >> 8) * 0x1p-24f; }

// Returns dropout's threshold for a dropped share p: an element stays if its number reaches it.
KERNEL_FN uint32_t drop_threshold(double p) {
  const double scaled = p * 4294967296.0;
  return scaled >= 4294967295.0 ? 4294967295u : uint32_t(scaled);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
