// Captured and replayed work, against the same uncaptured work.
#include "core/tensor/capture/captured_work.h"
#include "core/tensor/exchange/dlpack.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/random/random.h"
#include "core/tensor/staging.h"
#include "kernels/catalogue.h"
#include "kernels/device/memory.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>

using namespace booster;

namespace {

using Bits = std::vector<uint8_t>;

Bits bits_of(const Tensor& x) {
  const Tensor here = untracked::contiguous(x).to(Device{});
  Bits bits(static_cast<size_t>(here.bytes()));
  if (!bits.empty()) std::memcpy(bits.data(), here.data(), bits.size());
  return bits;
}

Tensor on_gpu_of(const Tensor& x) { return x.to(gpu); }

// A program of random calls: it reads inputs, changes a state in place and returns results. The
// same seed gives the same program.
class Program {
 public:
  Program(uint32_t seed, int64_t size) : seed_(seed), size_(size) {}

  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Tensor& state) const {
    std::mt19937 draw(seed_);
    std::vector<Tensor> values = inputs;
    const auto any = [&] { return values[draw() % values.size()]; };
    Tensor changed = state;
    for (int step = 0; step < 8; ++step) {
      switch (draw() % 7) {
        case 0: values.push_back(combined(kernels::BinaryOp::add, any(), any())); break;
        case 1: values.push_back(combined(kernels::BinaryOp::mul, any(), any())); break;
        case 2: values.push_back(any().clone().mul_(0.75)); break;
        case 3: values.push_back(running_sums(any())); break;
        case 4: values.push_back(uniform({size_}, -1, 1, {.device = gpu})); break;
        case 5: changed.add_(any(), 0.5); break;
        // Memory freed here is reused by later values.
        case 6: values.erase(values.begin() + static_cast<int64_t>(draw() % values.size())); break;
      }
      if (values.empty()) values.push_back(full({size_}, 0.5, {.device = gpu}));
    }
    values.push_back(combined(kernels::BinaryOp::add, any(), state));
    return {values.back(), any().clone()};
  }

 private:
  static Tensor combined(kernels::BinaryOp op, const Tensor& a, const Tensor& b) {
    const Tensor y = empty_like(a);
    kernels::on(gpu).binary(op, y.view(), a.view(), b.view());
    return y;
  }
  static Tensor running_sums(const Tensor& x) {
    const Tensor y = empty_like(x);
    kernels::on(gpu).cumsum(y.view(), x.view(), 0, false);
    return y;
  }

  uint32_t seed_;
  int64_t size_;
};

// Captured work and the same work uncaptured, each with its own state.
struct Pair {
  Pair(uint32_t seed, int64_t size, std::vector<Tensor> given)
      : program(seed, size), inputs(std::move(given)), state(zeros({size}, {.device = gpu})),
        plain_state(state.clone()) {
    const RandomState before = default_generator().state();
    program.run(inputs, state.clone());
    default_generator().set_state(before);
    captured = capture(gpu, [this] { return program.run(inputs, state); });
    CHECK(default_generator().state() == before);
  }

  // Both start from the same position of the thread's generator.
  void check_replay() {
    const RandomState before = default_generator().state();
    const uint32_t version = state.version();
    captured.replay();
    const RandomState behind = default_generator().state();
    default_generator().set_state(before);
    const std::vector<Tensor> plain = program.run(inputs, plain_state);
    CHECK(default_generator().state() == behind);
    for (size_t i = 0; i < plain.size(); ++i)
      CHECK(bits_of(captured.results()[i]) == bits_of(plain[i]));
    CHECK(bits_of(state) == bits_of(plain_state));
    CHECK((state.version() != version) == (plain_state.version() != plain_version));
    plain_version = plain_state.version();
  }

  Program program;
  std::vector<Tensor> inputs;
  Tensor state, plain_state;
  uint32_t plain_version = 0;
  CapturedWork captured;
};

// An uncaptured tensor whose values must not change.
struct Bystander {
  explicit Bystander(int64_t size) : tensor(uniform({size}).to(gpu)), bits(bits_of(tensor)) {}
  Tensor tensor;
  Bits bits;
};

Tensor drawn_input(int64_t size) { return on_gpu_of(uniform({size})); }

}  // namespace

TEST_CASE("GPU: drawn orders of captures, replays and plain work give what plain work gives" *
          on_gpu()) {
  manual_seed(3);
  std::mt19937 draw(17);
  const int64_t live_before = allocator_stats().live_bytes;
  {
    std::deque<std::unique_ptr<Pair>> pairs;
    std::deque<Bystander> bystanders;
    const int64_t sizes[] = {1, 7, 300, 5000};
    for (int step = 0; step < 150; ++step) {
      CAPTURE(step);
      const uint32_t kind = pairs.empty() ? 0 : draw() % 10;
      const size_t which = pairs.empty() ? 0 : draw() % pairs.size();
      if (kind == 0 && pairs.size() < 4) {
        const int64_t size = sizes[draw() % 4];
        pairs.push_back(std::make_unique<Pair>(
            draw(), size, std::vector<Tensor>{drawn_input(size), drawn_input(size)}));
      } else if (kind == 1) {
        pairs.erase(pairs.begin() + static_cast<int64_t>(which));
      } else if (kind == 2) {
        for (Tensor& input : pairs[which]->inputs)
          input.copy_(uniform(input.shape()));
      } else if (kind == 3) {
        empty_cache();
      } else if (kind == 4 && !bystanders.empty()) {
        bystanders.erase(bystanders.begin() + static_cast<int64_t>(draw() % bystanders.size()));
      } else if (kind <= 6 && bystanders.size() < 12) {
        bystanders.emplace_back(sizes[draw() % 4]);
      } else if (!pairs.empty()) {
        pairs[which]->check_replay();
      }
      for (const Bystander& each : bystanders) REQUIRE(bits_of(each.tensor) == each.bits);
    }
  }
  CHECK(allocator_stats().live_bytes == live_before);
}

TEST_CASE("GPU: a replay reads its inputs and writes its results where they were" * on_gpu()) {
  Tensor x = full({5}, 1, {.device = gpu}), total = zeros({5}, {.device = gpu});
  CapturedWork captured = capture(gpu, [&] {
    total.add_(x);
    return std::vector<Tensor>{x.clone().mul_(3)};
  });
  const Tensor result = captured.results()[0];
  CHECK(total.to_vector<float>() == std::vector<float>(5, 0));
  for (const float value : {2.0F, 4.0F}) {
    x.fill_(value);
    const uint32_t version = result.version(), of_input = x.version();
    captured.replay();
    CHECK(result.to_vector<float>() == std::vector<float>(5, 3 * value));
    CHECK(result.version() > version);
    CHECK(x.version() == of_input);
  }
  CHECK(total.to_vector<float>() == std::vector<float>(5, 6));
}

TEST_CASE("GPU: captured work keeps what it uses, and its memory is its own" * on_gpu()) {
  const int64_t live_before = allocator_stats().live_bytes;
  {
    CapturedWork captured;
    Tensor result;
    {
      const Tensor x = full({3000}, 2, {.device = gpu});
      captured = capture(gpu, [x] {
        const Tensor temporary = x.clone().mul_(5);
        return std::vector<Tensor>{temporary.clone()};
      });
      result = captured.results()[0];
    }
    // Tries to reuse the memory of x and of the temporary, which nothing holds any more.
    std::vector<Tensor> others;
    for (int i = 0; i < 6; ++i) others.push_back(full({3000}, -1, {.device = gpu}));
    captured.replay();
    CHECK(result.to_vector<float>() == std::vector<float>(3000, 10));
    for (const Tensor& each : others) CHECK(each.to_vector<float>()[2999] == -1);
    captured = {};
    CHECK(result.to_vector<float>()[17] == 10);  // it stays valid; its block is shared now
  }
  CHECK(allocator_stats().live_bytes == live_before);
}

TEST_CASE("GPU: what cannot be captured is an error that says why, and nothing is left of it" *
          on_gpu()) {
  const Tensor x = full({4}, 2, {.device = gpu}), on_cpu = ones({4});
  const Tensor number = full({}, 3);
  Generator own(5);
  const RandomState random_before = default_generator().state();
  const auto said = [&](const std::function<void()>& call) {
    const int64_t live_before = allocator_stats().live_bytes;
    const std::string text = error_of([&] {
      capture(gpu, [&] {
        const Tensor before = x.clone();
        call();
        return std::vector<Tensor>{before};
      });
    });
    CHECK(allocator_stats().live_bytes == live_before);
    CHECK(default_generator().state() == random_before);
    CHECK(x.clone().mul_(2).to_vector<float>() == std::vector<float>(4, 4));
    return text;
  };
  CHECK(contains(said([&] { x.to_vector<float>(); }), "reading values from a GPU"));
  CHECK(contains(said([&] { x.to_vector<float>(); }), "read after replay()"));
  CHECK(contains(said([&] { on_cpu.to(gpu); }), "a copy to a GPU"));
  CHECK(contains(said([&] { on_cpu.clone(); }), "copy: cannot be recorded"));
  CHECK(contains(said([&] { x.clone().add_(full({}, 3)); }), "fill: cannot be recorded"));
  CHECK(contains(said([&] { x.clone().add_(untracked::expand(number, {4})); }),
                 "the CPU's present number"));
  CHECK(contains(said([&] { uniform({4}, 0, 1, {.device = gpu}, own); }), "default_generator()"));
  CHECK(contains(said([&] { randint(0, 4, {4}, gpu); }), "cannot be recorded"));
  CHECK(contains(said([&] { kernels::device_synchronize(gpu); }), "waiting for a GPU"));
  CHECK(contains(said([&] { capture(gpu, [] { return std::vector<Tensor>{}; }); }),
                 "already being recorded"));
  const Staging staging(gpu);
  const Tensor staged = staging.to_fill({4}, DType::f32);
  CHECK(contains(said([&] { staging.on_device(staged); }), "a batch's copy to a GPU"));
  CHECK(contains(said([&] { to_dlpack(x); }), "to_dlpack: cannot be recorded"));
  CHECK(contains(said([&] { fail("the work's own error"); }), "the work's own error"));
  CHECK(contains(error_of([&] { capture(gpu, [&] { return std::vector<Tensor>{on_cpu}; }); }),
                 "a result is on another device; got one on the cpu"));
  CHECK(contains(error_of([&] { capture(gpu, [&] { return std::vector<Tensor>{Tensor()}; }); }),
                 "undefined"));
  CapturedWork captured = capture(gpu, [&] { return std::vector<Tensor>{x.clone()}; });
  CHECK(contains(said([&] { captured.replay(); }), "replay: cannot be recorded"));
  std::string elsewhere;
  std::thread([&] { elsewhere = error_of([&] { captured.replay(); }); }).join();
  CHECK(contains(elsewhere, "belongs to the thread that captured it"));
  captured.replay();
  CHECK(captured.results()[0].to_vector<float>() == std::vector<float>(4, 2));
}

TEST_CASE("GPU: work of two GPUs is not captured as one" * on_gpu(2)) {
  const Tensor there = full({4}, 2, {.device = {DeviceType::cuda, 1}});
  const auto work = [&] { return std::vector<Tensor>{there.clone()}; };
  CHECK(contains(error_of([&] { capture(gpu, work); }),
                 "a capture supports one GPU; got work for cuda:1"));
  CHECK(there.clone().to_vector<float>()[0] == 2);
}

TEST_CASE("GPU: other threads go on with the GPU while work is captured, and are no part of it" *
          on_gpu()) {
  Tensor theirs = zeros({100}, {.device = gpu});
  const Tensor x = full({100}, 3, {.device = gpu});
  CapturedWork captured = capture(gpu, [&] {
    const Tensor y = x.clone();
    std::thread([&] {
      theirs.add_(full({100}, 1, {.device = gpu}));
      empty_cache();
      CHECK(theirs.to_vector<float>()[99] == 1);
    }).join();
    return std::vector<Tensor>{y};
  });
  captured.replay();
  captured.replay();
  CHECK(captured.results()[0].to_vector<float>()[99] == 3);
  CHECK(theirs.to_vector<float>()[0] == 1);
}

TEST_CASE("GPU: a kernel's own memory is the captured work's as long as it lives" * on_gpu()) {
  // Some MB, for which a thread's memory grows and is replaced, during the capture and later.
  const auto written = [](int64_t n) {
    const Tensor index = arange(n, {DType::i64, gpu}), from = full({n}, 4, {.device = gpu});
    const Tensor out = zeros({n}, {.device = gpu});
    kernels::on(gpu).scatter(out.view(), from.view(), index.view(), 0);
    return out;
  };
  written(40);
  const auto work = [&] { return std::vector<Tensor>{written(40), written(70000), written(40)}; };
  CapturedWork captured = capture(gpu, work);
  written(140000);
  captured.replay();
  for (const Tensor& each : captured.results())
    CHECK(bits_of(each) == bits_of(full(each.shape(), 4)));
}

TEST_CASE("GPU: captured work may go while other work is captured" * on_gpu()) {
  const Tensor x = full({100}, 3, {.device = gpu});
  const auto work = [&] { return std::vector<Tensor>{x.clone().mul_(2)}; };
  CapturedWork first = capture(gpu, work);
  first.replay();
  CapturedWork second = capture(gpu, [&] {
    first = {};
    return work();
  });
  second.replay();
  CHECK(second.results()[0].to_vector<float>() == std::vector<float>(100, 6));
}

TEST_CASE("GPU alone: out of memory within a capture is an error, and the memory comes back" *
          on_gpu()) {
  const int64_t live_before = allocator_stats().live_bytes;
  const auto all = static_cast<double>(kernels::cuda_devices()[0].bytes);
  const auto half = static_cast<int64_t>(all * 0.55);
  const auto work = [&] {
    const Tensor first = empty({half}, {DType::u8, gpu}), second = empty({half}, {DType::u8, gpu});
    return std::vector<Tensor>{second};
  };
  CHECK(contains(error_of([&] { capture(gpu, work); }), "memory: the system has no more"));
  CHECK(allocator_stats().live_bytes == live_before);
  empty_cache();
  CHECK(capture(gpu, [&] {
          { const Tensor first = empty({half}, {DType::u8, gpu}); }
          return std::vector<Tensor>{empty({half}, {DType::u8, gpu}).fill_(1)};  // reuses the block
        }).results()[0].defined());
  empty_cache();
}

TEST_CASE("GPU: arange counts there" * on_gpu()) {
  for (const DType dtype : {DType::i64, DType::i32, DType::f32, DType::f64})
    for (const int64_t n : {0, 1, 2, 1000, 70000})
      CHECK(bits_of(arange(n, {dtype, gpu})) == bits_of(arange(n, {dtype})));
}

TEST_CASE("work of the CPU is not captured, and an empty handle has none") {
  CapturedWork empty;
  CHECK(contains(error_of([&] { empty.replay(); }), "an empty handle"));
  CHECK(contains(error_of([&] { empty.results(); }), "an empty handle"));
  CHECK(contains(error_of([] { capture(Device{}, [] { return std::vector<Tensor>{}; }); }),
                 "only work of a GPU can be captured; got cpu"));
}
