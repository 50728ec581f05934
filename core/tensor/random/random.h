// Random numbers by position. A Generator is a seed and a count, and every draw takes a range of
// the Philox4x32-10 stream. Values thus do not depend on threads, and a saved state continues with
// the same bits.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  friend bool operator==(const RandomState&, const RandomState&) = default;
};

class RandomRecording;  // random_recording.h

class Generator {
 public:
  explicit Generator(uint64_t seed = 42) : state_{seed, 0} {}
  // Reserves n numbers and returns the position of the first.
  kernels::RandomPosition take(int64_t n) {
    const kernels::RandomPosition position = position_of(state_);
    state_.offset += static_cast<uint64_t>(n + 3) / 4;
    return position;
  }
  RandomState state() const { return state_; }
  void set_state(RandomState state) { state_ = state; }

 private:
  friend class RandomRecording;  // random_recording.h
  kernels::RandomPosition position_of(RandomState state) const;

  RandomState state_;
  const RandomRecording* recording_ = nullptr;
};

// Returns the generator of initialisers and dropout; each thread has its own.
Generator& default_generator();
// Restarts the calling thread's default generator.
void manual_seed(uint64_t seed);

// Sets the stream for all later draws of this thread, from any generator. Streams are far apart; a
// generator's own is number 0. Generator states advance as usual. Ranks that hold parts of one
// layer thus drop different elements while their generators stay equal. Returns the previous
// stream.
uint64_t set_random_stream(uint64_t number);
uint64_t random_stream();

// Draws values in [low, high), even after rounding to the dtype; low if both are equal. Throws for
// bounds in the wrong order, or outside the dtype's range.
Tensor uniform(const Shape& shape, double low = 0, double high = 1, TensorOptions options = {},
               Generator& generator = default_generator());
// Draws from a normal distribution. Throws for a negative std.
Tensor normal(const Shape& shape, double mean = 0, double std = 1, TensorOptions options = {},
              Generator& generator = default_generator());
// Draws integers from low to high - 1 (i64), on the host. high - low is at most 2^48.
Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device = {},
               Generator& generator = default_generator());
// Draws 1 with probability p, else 0, for each element of p. The result has p's dtype. Throws for
// values outside of [0, 1].
Tensor bernoulli(const Tensor& p, Generator& generator = default_generator());
// Draws n positions (i64) for each row of weights, of shape (rows, classes) or (classes).
// Probabilities are proportional to the weights, which need not sum to 1. Without replacement, each
// position occurs at most once. Runs on the host. Throws for a weight that is negative or not
// finite, and for fewer positive weights than needed.
Tensor multinomial(const Tensor& weights, int64_t n, bool replacement = false,
                   Generator& generator = default_generator());
// Returns a permutation of 0 .. n-1 (i64).
Tensor random_permutation(int64_t n, Generator& generator = default_generator());

// Fill tensors with draws for initialisers, off the tape.
void fill_uniform(Tensor& x, double low, double high, Generator& generator = default_generator());
void fill_normal(Tensor& x, double mean, double std, Generator& generator = default_generator());

}  // namespace booster
