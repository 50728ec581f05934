// Passes that differ: over parts of a model, with and without communication, frozen in between,
// with clips on ranks without gradients. Several ranks must end with the result of one process, or
// with an error about their difference.
#include "booster/booster.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/memory/memory_report.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>

using namespace booster;

namespace {

// Two experts and a common head; a pass uses one expert or both.
struct Experts : Module {
  Experts() : Module("Experts") {}
  Linear& a = add<Linear>("a", 4, 4);
  Linear& b = add<Linear>("b", 4, 4);
  Linear& head = add<Linear>("head", 4, 4);
  int used = 3;

 private:
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    if (used & 1) y = y + a(x);
    if (used & 2) y = y + b(x);
    return head(y);
  }
};

using Make = Choice<Plugin> (*)();
const std::map<std::string, Make> plugin_makers = {
    {"alone", [] { return Choice<Plugin>(SinglePlugin({.on_every_rank = true})); }},
    {"ddp", [] { return Choice<Plugin>(TorchDDPPlugin()); }},
    {"ddp that finds",
     [] { return Choice<Plugin>(TorchDDPPlugin({.find_unused_parameters = true})); }},
    {"zero 1", [] { return Choice<Plugin>(LowLevelZeroPlugin({.stage = 1})); }},
    {"zero 2", [] { return Choice<Plugin>(LowLevelZeroPlugin({.stage = 2})); }},
    {"fsdp", [] { return Choice<Plugin>(FsdpPlugin()); }},
    {"hybrid", [] { return Choice<Plugin>(HybridParallelPlugin({.zero_stage = 2})); }},
};

struct UnevenPass {
  std::vector<int> used;  // by rank; empty: b is frozen in this pass
  bool exchanges = true;
};
using Passes = std::vector<UnevenPass>;

std::string text_of(const Passes& passes) {
  std::string text;
  for (const UnevenPass& pass : passes) {
    if (pass.used.empty()) text += " freeze b,";
    else
      text += fmt::format(" experts {}{},", fmt::join(pass.used, " "),
                          pass.exchanges ? "" : " under no_sync");
  }
  return text + " step";
}

Tensor loss_of(BoostedModel& net, int number, int rank) {
  Generator generator(static_cast<uint64_t>(number * 10 + rank));
  return mean(net(uniform({2, 4}, -1, 1, {}, generator)) * (1.0 + rank));
}

std::vector<double> weights_after(const Passes& passes, const std::string& plugin) {
  const World world = launch_from_env();
  const bool alone = plugin == "alone";
  Booster booster({.plugin = plugin_makers.at(plugin)()});
  manual_seed(1);
  const auto experts = std::make_shared<Experts>();
  const Model model = experts;
  SGD optimizer(model.parameters(), {.lr = 1});
  auto [net, opt] = booster.boost(model, optimizer);
  for (size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].used.empty()) {
      experts->b.requires_grad_(false);
      continue;
    }
    std::unique_ptr<NoSyncGuard> local;
    if (!passes[i].exchanges) local.reset(new NoSyncGuard(booster.no_sync(net, opt)));
    Tensor loss = zeros({});
    for (int rank = 0; rank < world.size; ++rank) {
      if (!alone && rank != world.rank) continue;
      experts->used = passes[i].used[static_cast<size_t>(rank)];
      loss = loss + loss_of(net, static_cast<int>(i), rank) * (alone ? 1.0 / world.size : 1.0);
    }
    booster.backward(loss, opt);
  }
  opt.step();
  const WholeParameters whole(net);
  std::vector<double> numbers;
  for (const auto& [name, tensor] : model.parameters())
    for (const double number : cast(tensor, DType::f64).to_vector<double>())
      numbers.push_back(number);
  return numbers;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// Draws passes in which all ranks do the same. The last pass uses all unfrozen parameters, so that
// no gradient is missing.
Passes drawn(std::mt19937& random, int ranks) {
  Passes passes;
  const auto alike = [&](int used) {
    passes.push_back({std::vector<int>(static_cast<size_t>(ranks), used), random() % 2 == 0});
  };
  alike(3);
  const auto count = random() % 3;
  for (unsigned i = 0; i < count; ++i) alike(static_cast<int>(1 + random() % 3));
  if (random() % 2) {
    passes.push_back({});
    alike(1 + 2 * static_cast<int>(random() % 2));
  }
  std::shuffle(passes.begin(), passes.begin() + 1 + count, random);
  return passes;
}

}  // namespace

TEST_CASE("rank: passes alike" * doctest::skip()) {
  const World world = launch_from_env();
  std::mt19937 random(7);
  for (int i = 0; i < 30; ++i) {
    const Passes passes = drawn(random, world.size);
    const std::string story = text_of(passes);
    CAPTURE(story);
    const auto want = weights_after(passes, "alone");
    for (const auto& [name, make] : plugin_makers) {
      CAPTURE(name);
      CHECK(difference(weights_after(passes, name), want) < 1e-5);
    }
  }
}
TEST_CASE("drawn passes over parts of a model give what one process gives, whatever the plugin") {
  for (const int size : {2, 3}) CHECK(failures(Ranks("rank: passes alike", size).wait(120)) == "");
}

// Either an error or the right result is accepted; a wrong result is not.
TEST_CASE("rank: passes apart" * doctest::skip()) {
  const char* const plugin = std::getenv("TEST_PLUGIN");
  const Passes cases[] = {{{{1, 2}}, {{2, 1}}}, {{{1, 3}}, {{3, 3}}}, {{{3, 3}}, {{1, 3}, false}}};
  const Passes& passes = cases[std::atoi(std::getenv("TEST_NUMBER"))];
  const auto want = weights_after(passes, "alone");
  std::vector<double> got;
  const std::string error = error_of([&] { got = weights_after(passes, plugin); });
  INFO(error);
  if (error.empty()) CHECK(difference(got, want) < 1e-5);
  else CHECK(error.find("without some gradients") != error.npos);
}
TEST_CASE("ranks that use other experts get the right mean, or an error") {
  for (const char* plugin : {"ddp", "ddp that finds", "zero 1", "zero 2", "hybrid"})
    for (const char* number : {"0", "1", "2"}) {
      CAPTURE(plugin);
      CAPTURE(number);
      CHECK(failures(Ranks("rank: passes apart", 2,
                           {{"TEST_PLUGIN", plugin}, {"TEST_NUMBER", number}})
                         .wait(60)) == "");
    }
}

namespace {

struct OneBatch {
  Tensor image, label;
};

// Returns the norms that steps report. Calls: b backward, c clip by norm, v clip by value, z
// zero_grad, s step.
std::vector<double> norms_of(const std::string& calls, const Choice<Plugin>& plugin,
                             const Model& model) {
  Booster booster({.plugin = plugin});
  SGD optimizer(model.parameters(), {.lr = 1});
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, MSELoss());
  const OneBatch sample = {ones({4, 8}), zeros({4, 4})};
  std::vector<double> norms;
  for (const char call : calls) {
    const OneBatch* next = &sample;
    if (call == 'b') booster.execute_pipeline(next, net, loss_fn, opt);
    if (call == 'c') norms.push_back(opt.clip_grad_by_norm(0.1));
    if (call == 'v') opt.clip_grad_by_value(0.01);
    if (call == 'z') opt.zero_grad();
    if (call == 's') norms.push_back(opt.step().grad_norm());
  }
  return norms;
}

Model two_stages() {
  manual_seed(1);
  return Sequential({Linear(8, 4), Tanh()});
}

}  // namespace

TEST_CASE("rank: clips" * doctest::skip()) {
  for (const char* calls : {"zbcs", "zbcbs", "zbcvs", "cbs", "bczbs", "bcszs", "bcbcss"}) {
    CAPTURE(calls);
    const auto want = norms_of(calls, plugin_makers.at("alone")(), two_stages());
    const auto got =
        norms_of(calls, HybridParallelPlugin({.pp_size = 2, .stages = {1, 1}}), two_stages());
    CHECK(difference(got, want) < 1e-5);
  }
}
TEST_CASE("a stage without parameters reports the norms of all") {
  CHECK(failures(Ranks("rank: clips", 2).wait(60)) == "");
}

TEST_CASE("rank: memory of a pipeline" * doctest::skip()) {
  Sequential layers;
  for (int i = 0; i < 16; ++i) layers.append(Linear(256, 256));
  const Model model(std::move(layers));
  const int64_t whole = model.module().parameter_count() * 4;
  Booster booster({.plugin = FsdpPlugin()});
  SGD optimizer(model.parameters(), {.lr = 0.01});
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, MSELoss());
  const OneBatch sample = {ones({4, 256}), zeros({4, 256})};
  for (int step = 0; step < 3; ++step) {
    const OneBatch* next = &sample;
    opt.zero_grad();
    reset_peak_bytes();
    booster.execute_pipeline(next, net, loss_fn, opt);
    for (const auto& use : memory_use())
      if (use.tag == "parameters") CHECK(use.peak_bytes < 0.8 * static_cast<double>(whole));
    opt.step();
  }
}
TEST_CASE("fsdp keeps whole parameters of few units in a pipeline's passes, too") {
  CHECK(failures(Ranks("rank: memory of a pipeline", 2).wait(60)) == "");
}
