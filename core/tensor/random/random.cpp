#include "core/tensor/random/random.h"

#include "core/tensor/random/data_place.h"
#include "core/tensor/absence.h"
#include "core/tensor/held_number.h"
#include "core/tensor/random/random_recording.h"
#include "core/tensor/tensor.h"
#include "kernels/catalogue.h"
#include "kernels/host/recording.h"

#include <cmath>
#include <utility>

namespace booster {
namespace {
void check_fillable(const char* op, const Tensor& x) {
  check(x.defined() && is_floating(x.dtype()) && x.is_contiguous(),
        "{}: want a contiguous floating tensor; got {}", op,
        x.defined() ? name_of(x.dtype()) : "an undefined one");
  check(!grad_enabled() || !x.requires_grad() || x.body()->tracking->is_leaf(),
        "{}: the tape cannot record draws into a result; got grad mode on, want a NoGradGuard or "
        "detach()",
        op);
}

// Throws if the dtype cannot hold the bounds or, as in torch, their distance.
void check_bounds(double low, double high, DType dtype) {
  check(std::isfinite(low) && std::isfinite(high) && low <= high,
        "uniform: no numbers are between the bounds; got {} to {}", low, high);
  for (const double number : {low, high, high - low}) check_held("uniform", number, dtype);
  check(std::isfinite(high - low), "uniform: the bounds are too far apart; got {} to {}", low,
        high);
}
}  // namespace

Generator& default_generator() {
  static thread_local Generator generator;
  return generator;
}

namespace {
thread_local uint64_t stream = 0, data_place = 0;
constexpr uint64_t stream_length = uint64_t{1} << 44;  // blocks: 10^6 layers of 10^8 draws
constexpr uint64_t streams_of_place = 4096;
}  // namespace

uint64_t set_random_stream(uint64_t number) { return std::exchange(stream, number); }
uint64_t random_stream() { return stream; }
uint64_t set_data_place(uint64_t place) { return std::exchange(data_place, place); }
uint64_t random_data_place() { return data_place; }

kernels::RandomPosition Generator::position_of(RandomState state) const {
  state.offset += (data_place * streams_of_place + stream) * stream_length;
  if (!recording_)
    kernels::refuse_to_record("random numbers of your own generator",
                              "because each replay would draw the same numbers",
                              "the thread's default_generator()");
  // A seed set during the recording is part of the recording.
  if (!recording_ || state.seed != recording_->start_.seed) return {state.seed, state.offset};
  return {state.seed, state.offset - recording_->start_.offset,
          static_cast<const uint64_t*>(recording_->origin_.data())};
}

RandomRecording::RandomRecording(Generator& generator, Device device)
    : generator_(&generator), start_(generator.state()),
      origin_(zeros({2}, {.dtype = DType::i64, .device = device})) {
  check(!generator.recording_,
        "random: the generator is already being recorded; end that recording first");
  generator.recording_ = this;
}

RandomRecording::~RandomRecording() {
  if (generator_->recording_ == this) end();
}

void RandomRecording::end() {
  check(generator_->recording_ == this, "random: this recording has ended");
  const RandomState now = generator_->state();
  if (now.seed == start_.seed) taken_ = now.offset - start_.offset;
  generator_->set_state(start_);
  generator_->recording_ = nullptr;
}

// Passes the values as kernel arguments, so that the host does not wait for the GPU.
void RandomRecording::write_origin(RandomState state) {
  kernels::View half = origin_.view();
  half.dtype = DType::i32;
  half.ndim = 0;
  auto* place = static_cast<char*>(half.data);
  for (const uint64_t word : {state.seed, state.offset})
    for (const uint64_t bits : {word & 0xFFFFFFFF, word >> 32}) {
      half.data = std::exchange(place, place + sizeof(int32_t));
      const auto number = static_cast<int32_t>(static_cast<uint32_t>(bits));
      kernels::on(origin_.device()).fill(half, static_cast<double>(number));
    }
}

void RandomRecording::replay() {
  check(generator_->recording_ != this, "random: call end() of the recording before its replay");
  if (taken_ == 0) return;
  RandomState now = generator_->state();
  write_origin(now);
  now.offset += taken_;
  generator_->set_state(now);
}

void manual_seed(uint64_t seed) { default_generator().set_state({seed, 0}); }

void fill_uniform(Tensor& x, double low, double high, Generator& generator) {
  check_fillable("uniform", x);
  check_bounds(low, high, x.dtype());
  write_numbers(x, [low, high, position = generator.take(x.numel())](const Tensor& x) {
    kernels::on(x.device()).uniform(x.view(), low, high, position);
  });
  x.bump_version();
}

void fill_normal(Tensor& x, double mean, double std, Generator& generator) {
  check_fillable("normal", x);
  check(std >= 0, "normal: the standard deviation is negative; got {}, want 0 or more", std);
  write_numbers(x, [mean, std, position = generator.take(x.numel())](const Tensor& x) {
    kernels::on(x.device()).normal(x.view(), mean, std, position);
  });
  x.bump_version();
}

Tensor uniform(const Shape& shape, double low, double high, TensorOptions options,
               Generator& generator) {
  Tensor x = empty(shape, options);
  fill_uniform(x, low, high, generator);
  return x;
}

Tensor normal(const Shape& shape, double mean, double std, TensorOptions options,
              Generator& generator) {
  Tensor x = empty(shape, options);
  fill_normal(x, mean, std, generator);
  return x;
}

}  // namespace booster
