// Pipelines of hybrid_parallel combined with other axes: stages with nothing to train, buffers of
// several copies, and stages that begin within a sequence region.
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"
#include "tests/plugins/small_vit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t rows = 8, in_features = 6;

// Returns this rank's rows, by its position along data.
Tensor share_of(const Tensor& x, const Mesh& mesh) {
  const int64_t each = x.size(0) / mesh.size("data");
  return untracked::contiguous(untracked::narrow(x, 0, each * mesh.place("data"), each));
}

// Runs three steps distributed and alone; this rank's parameters must end equal.
void check_trains_as_alone(const std::function<Model()>& make,
                           const HybridParallelOptions& options) {
  const Group world = launch_from_env().group();
  const PluginMaker plugin = HybridParallelPlugin(options, world);
  const Mesh mesh = plugin()->mesh();
  Booster spread({.plugin = plugin}), single({.plugin = SinglePlugin({.on_every_rank = true})});
  manual_seed(1);
  const Model parts = make();
  manual_seed(1);
  const Model whole = make();
  auto [net, optimizer, loss] =
      spread.boost(parts, SGD(parts.parameters(), {.lr = 0.1, .momentum = 0.9}), mean_of_squares());
  auto [alone, its_optimizer, its_loss] =
      single.boost(whole, SGD(whole.parameters(), {.lr = 0.1, .momentum = 0.9}), mean_of_squares());
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor x = numbers({rows, in_features}, 2 * step), y = numbers({rows, 3}, 2 * step + 1);
    train_on(share_of(x, mesh), share_of(y, mesh), spread, net, loss, optimizer);
    train_on(x, y, single, alone, its_loss, its_optimizer);
    CHECK(optimizer.step().grad_norm() ==
          doctest::Approx(its_optimizer.step().grad_norm()).epsilon(1e-5));
    optimizer.zero_grad();
    its_optimizer.zero_grad();
  }
  const auto got = parts.parameters(), want = whole.parameters();
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].tensor.numel() == 0) continue;  // on another stage
    INFO(got[i].name);
    CHECK(amax(abs(got[i].tensor.detach() - want[i].tensor.detach())).item() < 1e-5);
  }
}

Model half_frozen(bool first_half) {
  Sequential model({Linear(in_features, 5), Tanh(), Linear(5, 3)});
  model[first_half ? 0 : 2].freeze();
  return Model(std::move(model));
}
Model half_without_parameters() { return Sequential({Tanh(), Linear(in_features, 3)}); }

// --- buffers
Model with_statistics() { return Sequential({BatchNorm2d(2), Tanh(), BatchNorm2d(2), Flatten()}); }

// --- dropout within a sequence region
Model vit_with_dropout() {
  return models::vit("vit_tiny_patch16_224", {.num_classes = 5,
                                              .proj_drop_rate = 0.2,
                                              .img_size = 48,
                                              .embed_dim = 24,
                                              .depth = 4,
                                              .num_heads = 6});
}

}  // namespace

TEST_CASE("rank: nothing to train" * doctest::skip()) {
  const int64_t data = launch_from_env().size / 2;
  for (const int64_t zero : {0, 1, 2}) {
    if (data == 1 && zero == 2) continue;
    INFO("zero_stage ", zero);
    const HybridParallelOptions options = {
        .pp_size = 2, .zero_stage = zero, .num_microbatches = 2, .stages = {1, 2}};
    check_trains_as_alone([] { return half_frozen(true); }, options);
    check_trains_as_alone([] { return half_frozen(false); }, options);
    HybridParallelOptions halves = options;
    halves.stages = {1, 1};
    check_trains_as_alone(half_without_parameters, halves);
  }
}
TEST_CASE("rank: all is frozen" * doctest::skip()) {
  const Group world = launch_from_env().group();
  for (const int64_t zero : {0, 1}) {
    Model model = half_frozen(true);
    model->freeze();
    Booster booster({.plugin = HybridParallelPlugin({.pp_size = 2, .zero_stage = zero}, world)});
    const std::string error =
        error_of([&] { booster.boost(model, SGD(model.parameters(), {.lr = 0.1})); });
    CHECK(error.find("the model has no parameter that requires a gradient") != error.npos);
  }
}
TEST_CASE("a stage may be frozen or have no parameters, as long as another one trains") {
  CHECK(failures(Ranks("rank: nothing to train", 2).wait(100)) == "");
  CHECK(failures(Ranks("rank: nothing to train", 4).wait(100)) == "");
  CHECK(failures(Ranks("rank: all is frozen", 2).wait(100)) == "");
}

TEST_CASE("rank: statistics of batches" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const PluginMaker plugin =
      HybridParallelPlugin({.pp_size = 2, .num_microbatches = 2, .stages = {2, 2}}, world);
  const Mesh mesh = plugin()->mesh();
  const Group copies = mesh.group("data");
  const Model model = with_statistics();
  std::vector<std::vector<float>> seen;  // before each micro-batch
  for (auto& [name, module] : model->named_modules())
    if (module->kind() == "BatchNorm2d")
      module->register_forward_pre_hook([&seen](Module& norm, const Tensor&) {
        seen.push_back(norm.buffers()[0].tensor.to_vector<float>());
        return Tensor();
      });
  Booster booster({.plugin = plugin});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), mean_of_squares());
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor x = share_of(numbers({rows, 2, 2, 2}, step) + 2 * mesh.place("data"), mesh);
    train_on(x, untracked::reshape(x, {-1, 8}), booster, net, loss, optimizer);
    optimizer.step();
    optimizer.zero_grad();
  }
  REQUIRE(seen.size() == 6);
  for (size_t i = 0; i < seen.size(); ++i) {
    auto of_first = seen[i];
    copies.broadcast(of_first);
    INFO("microbatch ", i);
    const bool begins_batch = i % 2 == 0;
    if (begins_batch)
      CHECK(seen[i] == of_first);
    else
      CHECK((seen[i] == of_first) == (copies.rank() == 0));
  }
}
TEST_CASE("each batch of a pipeline begins with rank 0's buffers on all copies of a stage") {
  CHECK(failures(Ranks("rank: statistics of batches", 4).wait(100)) == "");
}

// For every micro-batch: what a stage draws in one must not affect the next.
TEST_CASE("rank: dropped tokens" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const PluginMaker plugin = HybridParallelPlugin({.pp_size = 2,
                                                   .sp_size = 2,
                                                   .sequence_parallelism_mode = "ring_attn",
                                                   .num_microbatches = 2,
                                                   .stages = {3, 3}},
                                                  world);
  const Mesh mesh = plugin()->mesh();
  const Group tokens = mesh.group("sequence");
  const Model model = vit_with_dropout();
  std::vector<Tensor> dropped;
  for (const auto& [name, module] : model->named_modules())
    if (name.ends_with("mlp.drop2"))
      module->register_forward_hook([&](Module&, const Tensor& x, const Tensor& y) {
        dropped.push_back(cast(equal(y, 0) * not_equal(x, 0), DType::f32).detach());
        return Tensor();
      });
  Booster booster({.plugin = plugin});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), mean_of_squares());
  manual_seed(9);
  train_on(numbers({4, 3, 48, 48}, 1), numbers({4, 5}, 2), booster, net, loss, optimizer);
  REQUIRE(dropped.size() == 4);  // two blocks, two micro-batches
  for (size_t i = 0; i < dropped.size(); ++i) {
    INFO("stage ", mesh.place("pipeline"), ", dropout ", i);
    CHECK(sum(dropped[i]).item() > 0);
    auto of_first = dropped[i].to_vector<float>();
    tokens.broadcast(of_first);
    CHECK((dropped[i].to_vector<float>() == of_first) == (tokens.rank() == 0));
  }
}
TEST_CASE("ranks with other tokens drop other elements on every stage") {
  CHECK(failures(Ranks("rank: dropped tokens", 4).wait(100)) == "");
}
