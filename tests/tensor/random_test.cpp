#include "core/tensor/random.h"

#include "kernels/catalogue.h"
#include "kernels/system/memory.h"
#include "kernels/system/threads.h"

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
  CHECK(*std::max_element(u.begin(), u.end()) <= 1);
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
