// Profiler, from recording to table and trace, and the options that enable it.
#include "booster/booster.h"
#include "booster/profile/profiler.h"
#include "booster/profile/profile_events.h"
#include "booster/training/boosted.h"
#include "core/tensor/memory/allocator.h"
#include "examples/vit_caltech101/program_config.h"
#include "kernels/catalogue.h"
#include "tests/booster/profile/profile_row.h"
#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

using namespace booster;
using booster::test::find_row;
using doctest::Contains;

namespace {

// Runs two steps of a small model with everything that a trace shows.
void train_two_steps() {
  Booster booster({.plugin = "torch_ddp"});
  Model model = Sequential{Linear(6, 8), ReLU(), Linear(8, 3)};
  const TensorDataset data(ones({8, 6}), from_vector<int64_t>({0, 1, 2, 0, 1, 2, 0, 1}, {8}));
  auto loader = booster.prepare_dataloader(data, {.batch_size = 4 / launch_from_env().size});
  const SGD optimizer(model.parameters(), {.lr = 0.1});
  auto boosted = booster.boost(model, optimizer, CrossEntropyLoss(), loader, ConstantLR(optimizer));
  auto& [net, opt, loss_fn, batches, lr] = boosted;
  for (auto& [input, label] : batches) {
    opt.zero_grad();
    booster.backward(loss_fn(net(input), label), opt);
    opt.step();
  }
}

nlohmann::json trace_of(const Profiler& profiler, const TemporaryFolder& folder) {
  profiler.write_trace(folder / "trace.json");
  return nlohmann::json::parse(folder.read("trace.json"))["traceEvents"];
}

}  // namespace

TEST_CASE("a profile tells calls, phases and FLOPs, and times that add up") {
  Profiler profiler;
  train_two_steps();
  profiler.stop();
  ones({100});  // after stop()
  const auto rows = profiler.rows();
  const ProfileRow* linear = find_row(rows, "linear", "forward");
  REQUIRE(linear);
  CHECK(linear->calls == 4);
  CHECK(linear->gflop == doctest::Approx(2e-9 * 2 * 4 * (6 * 8 + 8 * 3)));
  CHECK(linear->dtype == "f32");
  CHECK(find_row(rows, "unary_backward relu", "backward"));
  CHECK(find_row(rows, "sgd_step", "step"));
  CHECK(find_row(rows, "wait for batch", ""));
  const ProfileRow* loading = find_row(rows, "load sample", "");
  REQUIRE(loading);
  CHECK_FALSE(loading->on_main_thread);
  double sum = 0;
  for (const auto& row : rows) sum += row.on_main_thread ? row.seconds : 0;
  CHECK(sum > 0);
  CHECK(sum <= profiler.seconds());
}

TEST_CASE("a batch that runs by execute_pipeline has its passes") {
  const Model model = Sequential{Linear(6, 8), ReLU(), Linear(8, 3)};
  Booster booster;
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  struct Batch {
    Tensor input, label;
  } batch = {ones({4, 6}), zeros({4, 3})};
  const Batch* at = &batch;
  Profiler profiler;
  booster.execute_pipeline(at, net, MSELoss(), opt);
  profiler.stop();
  CHECK(find_row(profiler.rows(), "linear", "forward"));
  CHECK(find_row(profiler.rows(), "unary_backward relu", "backward"));
}

TEST_CASE("the table has a line per kernel, the bound and what lies between kernels") {
  Profiler profiler;
  train_two_steps();
  profiler.stop();
  const std::string table = profiler.table();
  for (const char* part : {"forward ", "GFLOP/s", "of bound", "linear ", "(between kernels)",
                           "bound in f32: ", "wait for batch"})
    CHECK(table.find(part) != table.npos);
}

TEST_CASE("a trace is what the viewers of Chrome and Perfetto read") {
  const TemporaryFolder folder;
  Profiler profiler;
  train_two_steps();
  profiler.stop();
  std::set<std::string> categories, threads;
  bool counted = false;
  for (const auto& event : trace_of(profiler, folder)) {
    CHECK(event["pid"] == 0);
    const std::string kind = event["ph"];
    if (kind == "X") {
      CHECK(event["dur"].get<double>() >= 0);
      CHECK(event["ts"].get<double>() > 0);
      CHECK(event["tid"].is_number());
      categories.insert(event["cat"]);
    } else if (kind == "C") {
      counted |= event["args"]["live MB"].get<double>() > 0;
    } else if (event["name"] == "thread_name") {
      threads.insert(event["args"]["name"]);
    }
  }
  CHECK(categories == std::set<std::string>{"collective", "kernel", "loader", "op", "phase"});
  CHECK(threads == std::set<std::string>{"loader", "main"});
  CHECK(counted);
}

TEST_CASE("rank: profile" * doctest::skip()) {
  const World world = launch_from_env();
  world.group();
  Profiler profiler;
  train_two_steps();
  profiler.stop();
  const std::filesystem::path path = std::filesystem::path(test_folder()) / "trace.json";
  profiler.write_trace(path, world.group());
  if (world.rank > 0) return;
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::set<int> ranks;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["name"] == "all_reduce") ranks.insert(int(event["pid"]));
  CHECK(ranks == std::set<int>{0, 1});
}

TEST_CASE("the trace of two ranks is one file with both") {
  CHECK(failures(Ranks("rank: profile", 2).wait()) == "");
}

TEST_CASE("communication is hidden while the main thread computes in a backward pass") {
  using kernels::SpanKind, kernels::TraceScope;
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  std::atomic<bool> began = false, ends = false;
  Profiler profiler;
  std::thread other([&] {
    const TraceScope message("all_reduce", SpanKind::collective);
    began = true;
    while (!ends) std::this_thread::yield();
  });
  while (!began) std::this_thread::yield();
  pause();  // outside backward
  for (int i = 0; i < 2; ++i) {
    const TraceScope pass("backward", SpanKind::phase);
    pause();
    const TraceScope wait("wait for ranks", SpanKind::collective);
    pause();
  }
  ends = true;
  other.join();
  profiler.stop();
  double computing = 0;
  for (const ProfileEvent& event : profiler.threads()[0].events)
    computing += (event.span.name == std::string("backward") ? 1e-9 : -1e-9) *
                 static_cast<double>(event.span.end - event.span.begin);
  const auto [all, hidden] = profiler.communication();
  CHECK(hidden == doctest::Approx(computing).epsilon(1e-6));
  CHECK(hidden >= 0.004);
  CHECK(all >= hidden + 0.006);
  CHECK(profiler.table().find("% hidden by backward") != std::string::npos);
}

TEST_CASE("one profiler records at a time, on all threads, and again after another") {
  {
    const Profiler first;
    CHECK_THROWS_WITH_AS(Profiler(), Contains("another one is recording"), Error);
  }
  Profiler second;
  std::thread([] { ones({5}); }).join();
  second.stop();
  second.stop();
  REQUIRE(second.threads().size() == 2);
  CHECK(second.threads()[0].events.empty());
  CHECK(second.threads()[1].events.size() == 1);
}

TEST_CASE("a range of steps is two whole numbers in order") {
  CHECK(parse_step_range("3:20")->last == 20);
  CHECK(parse_step_range("7:7")->first == 7);
  for (const char* wrong : {"", "3", "3:", ":3", "4:3", "0:3", "-1:3", "1:2:3", "1:2x", " 1:2",
                            "1:99999999999999999999"})
    CHECK_FALSE(parse_step_range(wrong));
}

TEST_CASE("--profile sets train.profile, checked as a config is") {
  const char* arguments[] = {"program", "--profile", "10:20"};
  CHECK(Config::from_args(3, arguments, example::program_config())
            .get<std::string>("train.profile") == "10:20");
  const char* joined[] = {"program", "--profile=10:5"};
  CHECK_THROWS_WITH_AS(Config::from_args(2, joined, example::program_config()),
                       Contains("train.profile: wrong range of steps; got \"10:5\""), Error);
}

TEST_CASE("precision auto is bf16 where it is native, else fp32, and says why") {
  const std::string before = kernels::cpu_variant();
  for (const auto& variant : kernels::cpu_variants()) {
    kernels::force_cpu_variant(variant);
    const bool native = variant == "avx512_bf16" || variant == "amx";
    CHECK(auto_precision().name == (native ? "bf16" : "fp32"));
    CHECK(auto_precision().reason.find(variant) != std::string::npos);
    CHECK(Booster({.mixed_precision = "auto"}).precision().name() ==
          std::string(native ? "bf16" : "fp32"));
  }
  kernels::force_cpu_variant(before);
}

TEST_CASE("a training's memory is told apart by what it is for") {
  reset_peak_bytes();
  const auto held = [](MemoryTag tag) { return tagged_bytes()[static_cast<int>(tag)]; };
  Booster booster({.mixed_precision = "bf16"});
  Model model = Sequential{Linear(64, 64), GELU(), Linear(64, 64)};
  auto [net, opt] = booster.boost(model, AdamW(model.parameters()));
  const int64_t parameter_bytes = 4 * model->parameter_count();
  const int64_t before = held(activation_tag("GELU")).live;
  const Tensor y = net(ones({32, 64}));
  CHECK(held(activation_tag("GELU")).live > before);
  booster.backward(sum(y), opt);
  opt.step();
  CHECK(held(MemoryTag::parameters).live >= parameter_bytes);
  CHECK(held(MemoryTag::gradients).live >= parameter_bytes);
  CHECK(held(MemoryTag::optimizer_state).live >= 2 * parameter_bytes);
  CHECK(held(MemoryTag::copies).live >= 2 * 2 * 64 * 64);
  CHECK(held(MemoryTag::workspace).peak > 0);
}
