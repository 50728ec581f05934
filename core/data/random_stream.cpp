// The portable variant of the kernels' generator: it uses integers, so every variant gives the same
// numbers.
#define BOOSTER_VARIANT portable

#include "core/data/random_stream.h"

#include "kernels/random.h"

namespace booster {
namespace {

using kernels::portable::philox;

uint64_t mixed(uint64_t key, uint64_t value) {
  const auto four = philox(key, value);
  return uint64_t{four.word[0]} << 32 | four.word[1];
}

}  // namespace

RandomStream::RandomStream(uint64_t seed, uint64_t epoch, uint64_t index)
    : key_(mixed(mixed(seed, epoch), index)) {}

uint32_t RandomStream::bits() {
  if (used_ == 4) {
    const auto four = philox(key_, block_++);
    for (int i = 0; i < 4; ++i) words_[i] = four.word[i];
    used_ = 0;
  }
  return words_[used_++];
}

double RandomStream::uniform(double low, double high) {
  const uint64_t wide = uint64_t{bits()} << 21 ^ bits() >> 11;  // 53 bits
  return low + (high - low) * (static_cast<double>(wide) * 0x1p-53);
}

int64_t RandomStream::below(int64_t n) {
  return static_cast<int64_t>(uint64_t{bits()} * static_cast<uint64_t>(n) >> 32);
}

}  // namespace booster
