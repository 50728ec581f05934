#include "core/tensor/absence.h"

#include "core/nn/layers.h"
#include "core/nn/models/vit.h"
#include "core/tensor/memory/allocator.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>

using namespace booster;

namespace {

Model small_vit() {
  return models::vit("vit_tiny_patch16_224",
                     {.num_classes = 7, .img_size = 32, .embed_dim = 48, .depth = 2});
}

Model convolutions() {
  return Sequential({Conv2d(3, 8, 3), BatchNorm2d(8), ReLU(), Flatten(), Linear(8, 5)});
}

Model table() { return Sequential({Embedding(20, 6, 3), Linear(6, 2)}); }

std::vector<float> counted(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i));
  return values;
}

}  // namespace

TEST_CASE("a model made under LazyInit has the numbers that it has without, in any order of use") {
  std::mt19937 random(1);
  for (const auto& make : {small_vit, convolutions, table}) {
    manual_seed(5);
    const Model want = make();
    const RandomState after = default_generator().state();
    for (int trial = 0; trial < 4; ++trial) {
      manual_seed(5);
      Model lazy;
      {
        const LazyInit scope;
        lazy = make();
      }
      CHECK(default_generator().state() == after);
      StateDict wanted = want.state_dict(), got = lazy.state_dict();
      REQUIRE(got.size() == wanted.size());
      std::vector<size_t> order(got.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::shuffle(order, random);
      for (const size_t i : order) {
        INFO(got[i].name);
        CHECK_FALSE(has_memory(got[i].tensor));
        CHECK(got[i].tensor.to_vector<double>() == wanted[i].tensor.to_vector<double>());
        CHECK(has_memory(got[i].tensor));
      }
    }
  }
}

TEST_CASE("what is made under LazyInit takes no memory until it is used") {
  const int64_t before = allocator_stats().live_bytes;
  Model model;
  {
    const LazyInit scope;
    model = Linear(1000, 1000);
    CHECK(allocator_stats().live_bytes == before);
    ones({10}).to_vector<float>();  // other memory is reused at once
    CHECK(allocator_stats().live_bytes == before);
  }
  model(ones({1, 1000}));
  CHECK(allocator_stats().live_bytes - before >= 4'000'000);
}

TEST_CASE("a lazy tensor that is filled, copied into and scaled has the numbers of a usual one") {
  const auto make = [] {
    Tensor x = empty({4, 3});
    x.fill_(2);
    untracked::select(x, 0, 1).fill_(5);
    x.mul_(3);
    x.add_(ones({3}), 0.5);
    untracked::narrow(x, 1, 0, 1).copy_(from_vector(counted(4), {4, 1}));
    return x;
  };
  const auto want = make().to_vector<float>();
  const LazyInit scope;
  CHECK(make().to_vector<float>() == want);
}

TEST_CASE("a tensor whose memory went refuses every use, and keeps its part") {
  const Tensor x = from_vector(counted(12), {3, 4});
  const Tensor window = untracked::select(x, 0, 1);
  keep_part(x, {5, 9});
  give_back_memory(x, "x is away; want it back");
  CHECK_FALSE(has_memory(x));
  const std::function<void()> uses[] = {
      [&] { x.to_vector<float>(); },   [&] { x.clone(); },
      [&] { Tensor(x).fill_(1); },     [&] { Tensor(x).mul_(2); },
      [&] { window.to_vector<float>(); },         [&] { (void)x.view(); },
      [&] { Tensor(window).copy_(ones({4})); }, [&] { ones({3, 4}).add_(x); }};
  for (const auto& use : uses) CHECK(error_of(use).find("away") != std::string::npos);
  CHECK(x.shape() == Shape{3, 4});
  CHECK(kept_part(x).to_vector<float>() == std::vector<float>{5, 6, 7, 8});

  SUBCASE("whole numbers written into it reach the part") {
    const uint32_t version = x.version();
    Tensor(x).copy_(full({3, 4}, 2));
    CHECK(x.version() > version);
    CHECK(kept_part(x).to_vector<float>() == std::vector<float>(4, 2));
    Tensor(x).copy_(from_vector(counted(4), {4}));  // broadcast over rows
    CHECK(kept_part(x).to_vector<float>() == std::vector<float>{1, 2, 3, 0});
  }
  SUBCASE("its memory comes back for every handle") {
    take_memory(x);
    Tensor(x).copy_(full({3, 4}, 7));
    CHECK(window.to_vector<float>() == std::vector<float>(4, 7));
    CHECK(kept_part(x).to_vector<float>() == std::vector<float>(4, 7));
  }
  SUBCASE("its dtype changes with that of the part") {
    convert_(x, DType::bf16);
    CHECK(x.dtype() == DType::bf16);
    CHECK(kept_part(x).dtype() == DType::bf16);
    CHECK(kept_part(x).to_vector<float>() == std::vector<float>{5, 6, 7, 8});
    CHECK(error_of([&] { x.clone(); }).find("away") != std::string::npos);
    CHECK(x.version() > window.version());
  }
}

TEST_CASE("memory that went is given back to the allocator") {
  const int64_t before = allocator_stats().live_bytes;
  const Tensor x = zeros({1 << 20});
  CHECK(allocator_stats().live_bytes - before >= 4 << 20);
  keep_part(x, {0, 1 << 10});
  give_back_memory(x, "away");
  give_back_memory(x, "away");
  CHECK(allocator_stats().live_bytes - before < 1 << 13);
}

TEST_CASE("only a tensor that has its memory for itself gives it back") {
  const Tensor x = zeros({4, 4});
  const Tensor column = untracked::select(x, 1, 0);
  CHECK(error_of([&] { give_back_memory(column, "away"); }).find("its own memory") !=
        std::string::npos);
  CHECK(error_of([&] { keep_part(column, {0, 1}); }).find("its own memory") != std::string::npos);
}

TEST_CASE(
    "numbers that are on their way come with the first use, as if they had always been there") {
  const Tensor x = ones({2, 3}), window = untracked::narrow(x, 0, 1, 1);
  const int64_t live = allocator_stats().live_bytes;
  int times = 0;
  renew_on_use(x, [&](Tensor given) {
    given.copy_(from_vector(counted(6), {2, 3}));
    ++times;
  });
  CHECK(allocator_stats().live_bytes < live);
  const uint32_t version = x.version();
  CHECK(version > 0);
  CHECK((times == 0 && !has_memory(x)));
  CHECK(window.to_vector<float>() == std::vector<float>{3, 4, 5});
  CHECK(x.to_vector<float>() == counted(6));
  CHECK(times == 1);
  CHECK(x.version() == version);
  renew_on_use(x, [](Tensor given) { given.fill_(1); });
  renew_on_use(x, [](Tensor given) { given.fill_(2); });  // the ones are never visible
  Tensor(x).add_(ones({2, 3}));
  CHECK(x.to_vector<float>() == std::vector<float>(6, 3));
}

TEST_CASE("numbers that do not come are an error of every use") {
  const Tensor x = ones({4});
  renew_on_use(x, [](Tensor given) {
    given.fill_(7);
    fail_run("rank 1 is gone");
  });
  for (int i = 0; i < 2; ++i) {
    CHECK(error_of([&] { x.to_vector<float>(); }).find("rank 1 is gone") != std::string::npos);
    CHECK_FALSE(has_memory(x));
  }
  CHECK(error_of([&] {
          renew_on_use(untracked::narrow(x, 0, 0, 2), [](const Tensor&) {});
        }).find("fills its own memory") != std::string::npos);
}
