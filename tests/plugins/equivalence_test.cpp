// Every built-in plugin agrees with one process, in every strategy, on several numbers of ranks;
// docs/equivalence.md has the distances.
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

Spread data_parallel(const std::string& name, Choice<Plugin> plugin, const Group& world) {
  return {.name = name,
          .plugin = std::move(plugin),
          .model = network,
          .shares = world.size(),
          .share = world.rank(),
          .breaking_rank = 0};
}

// Small buckets, so that there are several.
Spread ddp(const Group& world) {
  return data_parallel("torch_ddp", TorchDDPPlugin({.bucket_cap_mb = 0.01}, world), world);
}
// A static graph, known after the first step, so that buckets follow the order of the gradients.
Spread static_ddp(const Group& world) {
  const TorchDDPOptions options = {.bucket_cap_mb = 0.01, .static_graph = true};
  return data_parallel("ddp static", TorchDDPPlugin(options, world), world);
}
Spread narrow_ddp(const Group& world, const std::string& dtype, Digits digits) {
  const TorchDDPOptions options = {.bucket_cap_mb = 0.01, .comm_dtype = dtype};
  Spread spread = data_parallel("ddp " + dtype, TorchDDPPlugin(options, world), world);
  spread.sent = digits;
  return spread;
}
Spread fp16_ddp(const Group& world) { return narrow_ddp(world, "fp16", Digits::f16); }
Spread bf16_ddp(const Group& world) { return narrow_ddp(world, "bf16", Digits::bf16); }
template <int stage>
Spread zero(const Group& world) {
  const LowLevelZeroOptions options = {.stage = stage, .reduce_bucket_size_in_m = 0.002};
  return data_parallel("zero " + std::to_string(stage), LowLevelZeroPlugin(options, world), world);
}
Spread late_zero(const Group& world) {
  const LowLevelZeroOptions options = {.stage = 2, .overlap_allgather = true};
  return data_parallel("zero 2, late", LowLevelZeroPlugin(options, world), world);
}

template <bool recompute>
Spread fsdp(const Group& world) {
  return data_parallel(recompute ? "fsdp, recompute" : "fsdp",
                       FsdpPlugin({.recompute = recompute}, world), world);
}

Spread hybrid(const Group& world) {
  return data_parallel("fsdp, hybrid", FsdpPlugin({.sharding = "hybrid", .shard_size = 2}, world),
                       world);
}

// Freezes a parameter that already has a gradient, between backward and step.
void freeze_before_step() {
  const World world = launch_from_env();
  manual_seed(1);
  Model model = network();
  Booster booster({.plugin = LowLevelZeroPlugin({}, world.group())});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  booster.backward(sum(net(ones({2, features}))), optimizer);
  Tensor weight = model.parameters()[0].tensor;
  const auto before = weight.to_vector<float>();
  weight.requires_grad_(false);
  optimizer.step();
  auto mine = weight.to_vector<float>();
  CHECK(mine != before);
  auto of_rank_0 = mine;
  world.group().broadcast(of_rank_0);
  CHECK(mine == of_rank_0);
}

}  // namespace

TEST_CASE("rank: torch_ddp" * doctest::skip()) { train_all(ddp); }
TEST_CASE("rank: static ddp" * doctest::skip()) { train_all(static_ddp); }
TEST_CASE("rank: fp16 ddp" * doctest::skip()) { train_all(fp16_ddp); }
TEST_CASE("rank: bf16 ddp" * doctest::skip()) { train_all(bf16_ddp); }
TEST_CASE("rank: zero 1" * doctest::skip()) { train_all(zero<1>); }
TEST_CASE("rank: zero 2" * doctest::skip()) { train_all(zero<2>); }
TEST_CASE("rank: late zero" * doctest::skip()) { train_all(late_zero); }
TEST_CASE("rank: fsdp" * doctest::skip()) { train_all(fsdp<false>); }
TEST_CASE("rank: recomputing fsdp" * doctest::skip()) { train_all(fsdp<true>); }
TEST_CASE("rank: hybrid fsdp" * doctest::skip()) { train_all(hybrid); }
TEST_CASE("rank: frozen late" * doctest::skip()) { freeze_before_step(); }

TEST_CASE("torch_ddp trains as one process does in every strategy, on 2 ranks") {
  run_ranks("rank: torch_ddp", 2);
}
TEST_CASE("torch_ddp trains as one process does in every strategy, on 3 ranks") {
  run_ranks("rank: torch_ddp", 3);
}
TEST_CASE("torch_ddp trains as one process does in every strategy, on 4 ranks") {
  run_ranks("rank: torch_ddp", 4);
}
TEST_CASE("a static graph trains as one process does in every strategy, on 3 ranks") {
  run_ranks("rank: static ddp", 3);
}
TEST_CASE("gradients sent in fp16 train as one process does in every strategy, on 2 ranks") {
  run_ranks("rank: fp16 ddp", 2);
}
TEST_CASE("gradients sent in bf16 train as one process does in every strategy, on 3 ranks") {
  run_ranks("rank: bf16 ddp", 3);
}
TEST_CASE("ZeRO 1 trains as one process does in every strategy, on 2 ranks") {
  run_ranks("rank: zero 1", 2);
}
TEST_CASE("ZeRO 1 trains as one process does in every strategy, on 3 ranks") {
  run_ranks("rank: zero 1", 3);
}
TEST_CASE("ZeRO 1 trains as one process does in every strategy, on 4 ranks") {
  run_ranks("rank: zero 1", 4);
}
TEST_CASE("ZeRO 2 trains as one process does in every strategy, on 2 ranks") {
  run_ranks("rank: zero 2", 2);
}
TEST_CASE("ZeRO 2 trains as one process does in every strategy, on 3 ranks") {
  run_ranks("rank: zero 2", 3);
}
TEST_CASE("ZeRO 2 trains as one process does in every strategy, on 4 ranks") {
  run_ranks("rank: zero 2", 4);
}
TEST_CASE("ZeRO whose parameters arrive late trains as one process does in every strategy") {
  run_ranks("rank: late zero", 3);
}
// Covers every kind of collective that they use; ZeRO 1 and fsdp use a subset of the last two's.
TEST_CASE("data parallel plugins train as one process does over every connection") {
  for (const char* test_case : {"rank: torch_ddp", "rank: zero 2", "rank: hybrid fsdp"}) {
    CAPTURE(std::string(test_case));
    run_ranks_over_each(test_case);
  }
}
TEST_CASE("a parameter that is frozen behind its backward pass is stepped alike on all ranks") {
  run_ranks("rank: frozen late", 3);
}
TEST_CASE("fsdp trains as one process does in every strategy, on 2 ranks") {
  run_ranks("rank: fsdp", 2);
}
TEST_CASE("fsdp trains as one process does in every strategy, on 4 ranks") {
  run_ranks("rank: fsdp", 4);
}
TEST_CASE("fsdp that recomputes trains as one process does in every strategy, on 3 ranks") {
  run_ranks("rank: recomputing fsdp", 3);
}
TEST_CASE("fsdp with two copies trains as one process does in every strategy, on 4 ranks") {
  run_ranks("rank: hybrid fsdp", 4);
}
