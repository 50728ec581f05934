// Random numbers by position: a Generator is a seed and a count, every draw takes a run of the
// Philox4x32-10 stream, so values do not depend on threads and a saved state continues bit for bit.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  friend bool operator==(const RandomState&, const RandomState&) = default;
};

class RandomRecording;

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
  friend class RandomRecording;
  kernels::RandomPosition position_of(RandomState state) const;

  RandomState state_;
  const RandomRecording* recording_ = nullptr;
};

// What a recorded step (a CUDA graph) draws: each replay continues the stream where the generator
// then is, with the numbers that the step would draw if it ran unrecorded. The generator must
// outlive it.
class RandomRecording {
 public:
  // From now on the generator's positions are for kernels on `device` that are recorded, not run.
  // Error if the generator is already recorded.
  RandomRecording(Generator& generator, Device device);
  ~RandomRecording();
  RandomRecording(const RandomRecording&) = delete;
  RandomRecording& operator=(const RandomRecording&) = delete;

  // The recording is complete: the generator is where it was before.
  void end();
  // To be called before each replay: its kernels begin where the generator is, and the generator
  // goes on behind them. Error before end().
  void replay();

 private:
  friend class Generator;
  void write_origin(RandomState state);

  Generator* generator_;
  RandomState start_;
  uint64_t taken_ = 0;  // blocks, by one replay
  Tensor origin_;       // {seed, offset} on the device (i64)
};

// The generator of initialisers and dropout; one per thread of the program.
Generator& default_generator();
// Restarts the calling thread's default generator.
void manual_seed(uint64_t seed);

// From now on what this thread draws from any generator comes from another stream, far from the
// generator's own, which is number 0; the generator's state moves as ever. So ranks that hold parts
// of one layer drop different elements, and their generators stay alike. Returns the one before.
uint64_t set_random_stream(uint64_t number);
uint64_t random_stream();

// In [low, high), also after rounding to the dtype; low where both are equal. Error for bounds in
// the wrong order, or that the dtype does not hold.
Tensor uniform(const Shape& shape, double low = 0, double high = 1, TensorOptions options = {},
               Generator& generator = default_generator());
// Error for a negative std.
Tensor normal(const Shape& shape, double mean = 0, double std = 1, TensorOptions options = {},
              Generator& generator = default_generator());
// Whole numbers from low to high - 1 (i64), drawn on the host; at most 2^48 of them.
Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device = {},
               Generator& generator = default_generator());
// 1 with the probability that each number of p is, else 0; in p's dtype. Error outside of [0, 1].
Tensor bernoulli(const Tensor& p, Generator& generator = default_generator());
// n positions (i64) of each row of weights (rows, classes) or (classes), drawn with probabilities
// that are as the weights, which need not add up to 1; without replacement each at most once. Drawn
// on the host. Errors: a weight that is negative or not finite, fewer weights above 0 than needed.
Tensor multinomial(const Tensor& weights, int64_t n, bool replacement = false,
                   Generator& generator = default_generator());
// A permutation of 0 .. n-1 (i64).
Tensor random_permutation(int64_t n, Generator& generator = default_generator());

// In-place draws for initialisers; never recorded.
void fill_uniform(Tensor& x, double low, double high, Generator& generator = default_generator());
void fill_normal(Tensor& x, double mean, double std, Generator& generator = default_generator());

}  // namespace booster
