// The portable variant of the kernels' generator. All variants use integers and give the same
// values.
#define BOOSTER_VARIANT portable

#include "core/data/dataset.h"

#include "kernels/numbers/random.h"

#include <cmath>
#include <numbers>

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
  const uint64_t first = bits(), second = bits();
  const uint64_t wide = first << 21 ^ second >> 11;  // 53 bits
  const double x = low + (high - low) * (static_cast<double>(wide) * 0x1p-53);
  return x < high || low == high ? x : std::nextafter(high, low);  // the sum may be rounded up
}

int64_t RandomStream::below(int64_t n) {
  return static_cast<int64_t>(uint64_t{bits()} * static_cast<uint64_t>(n) >> 32);
}

double RandomStream::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));  // the argument of log is not 0
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

// Returns the logarithm of a value from Gamma(shape, 1): Marsaglia and Tsang, "A simple method for
// generating gamma variables", 2000. For a shape below 1 the value itself may underflow a double.
// It is a value from Gamma(shape + 1, 1), times u^(1 / shape).
double RandomStream::log_gamma(double shape) {
  if (shape < 1) {
    const double log_u = std::log(1 - uniform());
    return log_gamma(shape + 1) + log_u / shape;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

double RandomStream::beta(double a, double b) {
  const double log_x = log_gamma(a), log_y = log_gamma(b);
  return 1 / (1 + std::exp(log_y - log_x));  // x / (x + y)
}

}  // namespace booster
