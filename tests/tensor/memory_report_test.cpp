#include "core/tensor/memory/memory_report.h"
#include "core/tensor/tensor.h"
#include "core/tensor/memory/allocator.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <vector>

using namespace booster;

namespace {

constexpr int64_t mebibyte = 1 << 20;

TagBytes held(MemoryTag tag) { return tagged_bytes()[static_cast<int>(tag)]; }
std::string line(const char* tag, double mebibytes) {
  return fmt::format("  {:<32} {:>10.1f} {:>10.1f}\n", tag, mebibytes, mebibytes);
}
Tensor megabyte() { return empty({mebibyte / 4}); }

}  // namespace

TEST_CASE("memory counts under the scope it was made in, wherever it is released") {
  const int64_t before = held(MemoryTag::workspace).live;
  Tensor x;
  {
    const MemoryScope outer(MemoryTag::workspace);
    x = megabyte();
    {
      const MemoryScope inner(MemoryTag::data);
      const Tensor y = megabyte();
      CHECK(held(MemoryTag::data).live == mebibyte);
    }
    CHECK(current_memory_tag() == MemoryTag::workspace);
  }
  CHECK(current_memory_tag() == MemoryTag::other);
  CHECK(held(MemoryTag::workspace).live == before + mebibyte);
  CHECK(held(MemoryTag::data).live == 0);
  CHECK(held(MemoryTag::data).peak >= mebibyte);
  x = Tensor();
  CHECK(held(MemoryTag::workspace).live == before);
}

TEST_CASE("a tensor whose purpose shows later takes its storage to another tag") {
  const Tensor x = megabyte();
  const int64_t other = held(MemoryTag::other).live, masters = held(MemoryTag::masters).live;
  set_memory_tag(untracked::narrow(x, 0, 0, 3), MemoryTag::masters);
  set_memory_tag(x, MemoryTag::masters);
  set_memory_tag(Tensor(), MemoryTag::masters);
  CHECK(held(MemoryTag::other).live == other - mebibyte);
  CHECK(held(MemoryTag::masters).live == masters + mebibyte);
}

TEST_CASE("GPU: live bytes count on the device that has them, under their last tag" * on_gpu()) {
  const auto count = [&](MemoryTag tag) {
    return std::vector<int64_t>{live_bytes(Device{}, tag), live_bytes(gpu, tag)};
  };
  const auto data = count(MemoryTag::data), masters = count(MemoryTag::masters);
  const MemoryScope scope(MemoryTag::data);
  {
    const Tensor here = megabyte(), there = empty({mebibyte / 2}, {.device = gpu});
    CHECK(count(MemoryTag::data) ==
          std::vector<int64_t>{data[0] + mebibyte, data[1] + 2 * mebibyte});
    set_memory_tag(there, MemoryTag::masters);
    CHECK(count(MemoryTag::data) == std::vector<int64_t>{data[0] + mebibyte, data[1]});
    CHECK(count(MemoryTag::masters) == std::vector<int64_t>{masters[0], masters[1] + 2 * mebibyte});
  }
  CHECK(count(MemoryTag::data) == data);
  CHECK(count(MemoryTag::masters) == masters);
}

TEST_CASE("activations have a tag per kind of module, as long as tags last") {
  const MemoryTag tag = activation_tag("TestLayer");
  CHECK(tag > MemoryTag::activations);
  CHECK(activation_tag("TestLayer") == tag);
  CHECK(name_of(tag) == std::string("TestLayer"));
  MemoryTag last = tag;
  for (int i = 0; i < 2 * memory_tags; ++i) last = activation_tag("Kind" + std::to_string(i));
  CHECK(last == MemoryTag::activations);
  CHECK(activation_tag("TestLayer") == tag);
}

TEST_CASE("the report lists what holds memory and the sum") {
  const MemoryScope scope(activation_tag("TestLayer"));
  const Tensor x = megabyte();
  const std::string report = memory_report();
  CHECK(report.find(line("activations of TestLayer", 1)) != report.npos);
  CHECK(report.find("all tensors at once") != report.npos);
  const int64_t sum = allocator_stats().live_bytes;
  int64_t live = 0;
  for (const TagBytes& use : tagged_bytes()) live += use.live;
  CHECK(live == sum);
}

TEST_CASE("an allocation that fails says what holds memory and the three changes that save most") {
  const auto text_of_failure = [] {
    try {
      empty({int64_t{1} << 55});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const MemoryScope scope(MemoryTag::optimizer_state);
  const Tensor state = empty({64 * mebibyte / 4});
  const std::string text = text_of_failure();
  CHECK(text.find(line("optimizer state", 64)) != text.npos);
  CHECK(text.find("1. an optimizer with less state") != text.npos);
  CHECK(text.find("\n  3. ") != text.npos);
  CHECK(text.find("\n  4. ") == text.npos);
  set_memory_tag(state, MemoryTag::activations);
  CHECK(text_of_failure().find("1. a smaller batch") != text.npos);
}
