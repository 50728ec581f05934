#include "core/tensor/random/random.h"
#include "core/tensor/random/random_recording.h"

#include "kernels/catalogue.h"
#include "kernels/device/memory.h"
#include "platform/threads.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace booster;

TEST_CASE("the same seed gives the same numbers whatever the thread count") {
  const int before = kernels::thread_count();
  std::vector<std::vector<float>> draws;
  for (int threads : {1, 2, 3}) {
    kernels::set_thread_count(threads);
    Generator generator(7);
    auto values = uniform({100003}, 0, 1, {}, generator).to_vector<float>();
    const auto more = normal({5001}, 0, 1, {}, generator).to_vector<float>();
    values.insert(values.end(), more.begin(), more.end());
    draws.push_back(values);
  }
  kernels::set_thread_count(before);
  CHECK(draws[0] == draws[1]);
  CHECK(draws[0] == draws[2]);
}

TEST_CASE("Philox gives the published test vector") {
  // Random123's known answers for philox4x32-10 with zero counter and key: 6627e8d5 e169c58d
  // bc57ac4c 9b00dbd8
  Generator generator(0);
  const auto x = uniform({4}, 0, 1, {}, generator).to_vector<float>();
  const uint32_t expected[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (int i = 0; i < 4; ++i) CHECK(x[i] == static_cast<float>(expected[i] >> 8) * 0x1p-24f);
}

TEST_CASE("draws have the moments of their distributions") {
  Generator generator(3);
  const auto x = normal({200000}, 2, 3, {}, generator).to_vector<double>();
  double mean = 0, square = 0;
  for (double v : x) mean += v / x.size();
  for (double v : x) square += (v - mean) * (v - mean) / x.size();
  CHECK(std::abs(mean - 2) < 0.03);
  CHECK(std::abs(std::sqrt(square) - 3) < 0.03);
  const auto u = uniform({200000}, -1, 1, {}, generator).to_vector<double>();
  CHECK(*std::min_element(u.begin(), u.end()) >= -1);
  CHECK(*std::max_element(u.begin(), u.end()) < 1);
}

// If the bounds are a few values of the dtype apart, most sums are rounded.
TEST_CASE("uniform is never its upper bound, nor below its lower one, in any dtype and variant") {
  const std::string before = kernels::cpu_variant();
  for (const auto& variant : kernels::cpu_variants()) {
    kernels::force_cpu_variant(variant);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      CAPTURE(std::string(name_of(dtype)));
      Generator bounds(1), generator(2);
      const auto draw = [&] { return normal({1}, 0, 8, {.dtype = DType::f64}, bounds); };
      for (int i = 0; i < 200; ++i) {
        const double low = untracked::cast(draw(), dtype).item();
        const double spacing = std::abs(low) * (dtype == DType::f64   ? 0x1p-52
                                                : dtype == DType::f32 ? 0x1p-23
                                                : dtype == DType::f16 ? 0x1p-10
                                                                      : 0x1p-7);
        const double high = low + spacing * (i % 4 == 0 ? 1 : std::abs(draw().item()) + 1);
        CAPTURE(low);
        CAPTURE(high);
        const auto x = uniform({1000}, low, high, {.dtype = dtype}, generator).to_vector<double>();
        CHECK(*std::min_element(x.begin(), x.end()) >= low);
        CHECK(*std::max_element(x.begin(), x.end()) < high);
      }
      const auto x = uniform({100000}, 0, 1, {.dtype = dtype}, generator).to_vector<double>();
      double mean = 0;
      for (const double u : x) mean += u / 100000;
      CHECK(std::abs(mean - 0.5) < 0.005);
      CHECK(*std::max_element(x.begin(), x.end()) < 1);
    }
  }
  kernels::force_cpu_variant(before);
}

TEST_CASE("uniform takes the bounds that its dtype holds, in their order") {
  CHECK(uniform({3}, 2, 2).to_vector<float>() == std::vector<float>{2, 2, 2});
  for (const double x : uniform({100}, 1e300, 2e300, {.dtype = DType::f64}).to_vector<double>())
    CHECK((x >= 1e300 && x < 2e300));
  CHECK_THROWS_WITH_AS(uniform({3}, 2, 1), doctest::Contains("uniform: no numbers"), Error);
  CHECK_THROWS_WITH_AS(uniform({3}, 0, 1e9, {.dtype = DType::f16}),
                       doctest::Contains("got 1000000000 for f16"), Error);
  for (const double no_bound : {1e39, static_cast<double>(INFINITY), static_cast<double>(NAN)})
    CHECK_THROWS_AS(uniform({3}, 0, no_bound), Error);
  CHECK_THROWS_AS(uniform({3}, -3e38, 3e38), Error);
  CHECK_THROWS_AS(uniform({3}, -1.5e308, 1.5e308, {.dtype = DType::f64}), Error);
  CHECK_THROWS_WITH_AS(normal({3}, 0, -1), doctest::Contains("normal: the standard"), Error);
}

TEST_CASE("GPU: uniform is never its upper bound, in any dtype" * on_gpu()) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const double high = 1 + (is_16_bit(dtype) ? 0x1p-7 : dtype == DType::f32 ? 0x1p-22 : 0x1p-51);
    const auto x = uniform({4001}, 1, high, {dtype, gpu}).to_vector<double>();
    CHECK(*std::min_element(x.begin(), x.end()) >= 1);
    CHECK(*std::max_element(x.begin(), x.end()) < high);
  }
}

TEST_CASE("a restored state continues with the same numbers") {
  Generator generator(11);
  uniform({13}, 0, 1, {}, generator);
  const RandomState state = generator.state();
  const auto first = normal({50}, 0, 1, {}, generator).to_vector<float>();
  generator.set_state(state);
  CHECK(normal({50}, 0, 1, {}, generator).to_vector<float>() == first);
}

TEST_CASE("a permutation holds every number once") {
  Generator generator(5);
  auto p = random_permutation(1000, generator).to_vector<int64_t>();
  CHECK(p != arange(1000).to_vector<int64_t>());
  std::sort(p.begin(), p.end());
  CHECK(p == arange(1000).to_vector<int64_t>());
}

TEST_CASE("every CPU variant draws the same numbers") {
  std::vector<std::vector<float>> draws;
  const std::string before = kernels::cpu_variant();
  for (const auto& variant : kernels::cpu_variants()) {
    kernels::force_cpu_variant(variant);
    Generator generator(9);
    draws.push_back(uniform({1001}, 0, 1, {}, generator).to_vector<float>());
  }
  kernels::force_cpu_variant(before);
  for (const auto& draw : draws) CHECK(draw == draws[0]);
}

TEST_CASE("a recorded step draws in each replay what it would draw unrecorded") {
  struct Step {
    kernels::RandomPosition first, second, first_again;
    Tensor run() const {  // what a graph would launch
      Tensor y = empty({3, 1000});
      kernels::on(Device{}).uniform(untracked::select(y, 0, 0).view(), 0, 1, first);
      kernels::on(Device{}).normal(untracked::select(y, 0, 1).view(), 0, 1, second);
      kernels::on(Device{}).uniform(untracked::select(y, 0, 2).view(), 0, 1, first_again);
      return y;
    }
  };
  // The third kernel draws the first one's values again, like the backward passes of dropout and
  // activation checkpointing.
  const auto positions = [](Generator& generator) {
    Step step;
    const RandomState before = generator.state();
    step.first = generator.take(1000);
    step.second = generator.take(1000);
    const RandomState after = generator.state();
    generator.set_state(before);
    step.first_again = generator.take(1000);
    generator.set_state(after);
    return step;
  };
  Generator plain(11), recorded(11);
  for (Generator* generator : {&plain, &recorded}) generator->take(37);
  RandomRecording recording(recorded, Device{});
  CHECK_THROWS_AS(RandomRecording(recorded, Device{}), Error);
  const Step step = positions(recorded);
  CHECK_THROWS_AS(recording.replay(), Error);
  recording.end();
  CHECK_THROWS_AS(recording.end(), Error);
  CHECK(recorded.state() == plain.state());
  for (int i = 0; i < 3; ++i) {
    recording.replay();
    CHECK(step.run().to_vector<float>() == positions(plain).run().to_vector<float>());
    // Other draws between two replays; then another seed.
    const auto other = [](Generator& g) { return uniform({10}, 0, 1, {}, g).to_vector<float>(); };
    CHECK(other(recorded) == other(plain));
    CHECK(recorded.state() == plain.state());
    if (i == 1)
      for (Generator* generator : {&plain, &recorded}) generator->set_state({5, 1000});
  }
}
