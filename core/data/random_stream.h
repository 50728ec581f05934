// The random numbers of one sample in one epoch: a Philox stream keyed by seed, epoch and sample
// index, so that augmentation does not depend on workers or order. One stream is for one thread.
#pragma once

#include <cstdint>

namespace booster {

class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t epoch, uint64_t index);

  uint32_t bits();
  // Uniform in [low, high).
  double uniform(double low = 0, double high = 1);
  // A uniform integer of 0 .. n - 1; n is from 1 to 2^32.
  int64_t below(int64_t n);
  // Normal with mean 0 and variance 1, by Box and Muller.
  double normal();
  // From Beta(a, b), which is in [0, 1]; a and b more than 0, however small.
  double beta(double a, double b);

 private:
  double log_gamma(double shape);
  uint64_t key_;
  uint64_t block_ = 0;
  int used_ = 4;
  uint32_t words_[4] = {};
};

}  // namespace booster
