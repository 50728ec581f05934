#include "core/tensor/memory/allocator.h"
#include "core/tensor/tensor.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

using namespace booster;

TEST_CASE("a repeated pattern of sizes asks the system once") {
  auto step = [] {
    std::vector<Tensor> tensors;
    for (int64_t n : {1, 100, 1000, 12345, 1000000}) tensors.push_back(empty({n}));
  };
  step();
  const int64_t before = allocator_stats().system_allocations;
  for (int i = 0; i < 10; ++i) step();
  CHECK(allocator_stats().system_allocations == before);
}

TEST_CASE("blocks are aligned to 64 bytes and do not overlap") {
  struct Block {
    char* data;
    size_t bytes;
  };
  std::vector<Block> blocks;
  for (size_t bytes = 0; bytes < 3000; bytes += 37) {
    char* data = static_cast<char*>(allocate({}, bytes));
    CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0);
    std::memset(data, static_cast<int>(bytes % 251), bytes);
    blocks.push_back({data, bytes});
  }
  for (const Block& block : blocks) {
    bool intact = true;
    for (size_t i = 0; i < block.bytes; ++i)
      intact &= block.data[i] == static_cast<char>(block.bytes % 251);
    CHECK(intact);
    release({}, block.data, block.bytes);
  }
}

TEST_CASE("live bytes return to where they were, the peak stays") {
  const int64_t before = allocator_stats().live_bytes;
  reset_peak_bytes();
  {
    const Tensor x = empty({1 << 20});
    CHECK(allocator_stats().live_bytes >= before + (4 << 20));
  }
  CHECK(allocator_stats().live_bytes == before);
  CHECK(allocator_stats().peak_bytes >= before + (4 << 20));
  CHECK(allocator_stats().peak_bytes < before + (6 << 20));
}

TEST_CASE("a request beyond memory is an error, and the program goes on") {
  CHECK_THROWS_WITH_AS(empty({int64_t{1} << 55}), doctest::Contains("want a smaller batch"), Error);
  CHECK(ones({3}).to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("threads allocate and release side by side") {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &right] {
      for (int i = 1; i < 500; ++i) {
        const Tensor x = full({i}, t);
        right += x.data<float>()[i - 1] == static_cast<float>(t);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(right == 4 * 499);
}
