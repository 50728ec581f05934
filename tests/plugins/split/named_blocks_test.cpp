// Blocks of several tensors, of which ranks share the first one's tokens.
#include "examples/several_tensors/attention.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include "booster/booster.h"

#include <doctest/doctest.h>

#include <string>

namespace booster::testing::named_blocks {
namespace {

// A block that looks only at the tokens that the mask shows. Computes a weight too if asked.
class MaskedBlock : public Module {
 public:
  explicit MaskedBlock(bool gives_weight) : Module("MaskedBlock"), gives_weight_(gives_weight) {}
  several_tensors::Attention& attention = add<several_tensors::Attention>(
      "attention", several_tensors::Sizes{.features = 8, .heads = 2});
  LayerNorm& norm = add<LayerNorm>("norm", 8);
  Linear& fc1 = add<Linear>("fc1", 8, 16);
  Linear& fc2 = add<Linear>("fc2", 16, 8);

 private:
  Tensors forward_named(const Tensors& x) override {
    const Tensor y = x["x"] + Tensor(attention({{"x", norm(x["x"])}, {"mask", x["mask"]}}));
    Tensors all = x;
    all.set("x", y + fc2(gelu(fc1(norm(y)))));
    if (gives_weight_) all.set("weight", y.mean());
    return all;
  }
  bool gives_weight_;
};

Model masked_blocks(bool last_gives_weight) {
  manual_seed(5);
  return Sequential({MaskedBlock(false), MaskedBlock(last_gives_weight)});
}

HybridParallelOptions sequence_options(const std::string& mode, int64_t ranks) {
  HybridParallelOptions options = {.sequence_parallelism_mode = mode, .sequence_blocks = "[01]"};
  (mode == "split_gather" ? options.tp_size : options.sp_size) = ranks;
  const LayerPlan column = {.style = SplitStyle::column}, row = {.style = SplitStyle::row};
  options.tensor_plan = {{"*.attention.q", column}, {"*.attention.k", column},
                         {"*.attention.v", column}, {"*.attention.out", row},
                         {"*.fc1", column},         {"*.fc2", row}};
  return options;
}

}  // namespace

TEST_CASE("rank: masks beside shared tokens" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const Tensor mask = from_vector(std::vector<int64_t>{1, 1, 0, 1, 1, 0, 0, 0}, {2, 4});
  Generator generator(3);
  const Tensor goal = uniform({2, 4, 8}, -1, 1, {}, generator);
  const Tensors x = {{"x", uniform({2, 4, 8}, -1, 1, {}, generator)}, {"mask", equal(mask, 1)}};
  const Criterion loss_fn = [&](const Tensors& y, const Tensor& t) { return mse_loss(y["x"], t); };
  for (const char* mode : {"split_gather", "all_to_all"}) {
    INFO(mode);
    const auto norms = [&](const Choice<Plugin>& plugin) {
      const Model model = masked_blocks(false);
      Booster booster({.plugin = plugin});
      auto [net, optimizer, loss] =
          booster.boost(model, SGD(model.parameters(), {.lr = 0.5}), loss_fn);
      std::vector<double> all;
      for (int step = 0; step < 3; ++step) {
        const Tensor one = loss(net(x), goal);
        booster.backward(one, optimizer);
        all.push_back(one.item());
        all.push_back(optimizer.step().grad_norm());
        optimizer.zero_grad();
      }
      return all;
    };
    const auto want = norms(SinglePlugin({.on_every_rank = true})),
               got = norms(HybridParallelPlugin(sequence_options(mode, world.size()), world));
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-4));
    const auto text_with = [&](bool last_gives_weight, const Tensors& input) {
      const Model model = masked_blocks(last_gives_weight);
      Booster booster(
          {.plugin = HybridParallelPlugin(sequence_options(mode, world.size()), world)});
      const BoostedModel net = booster.boost(model, SGD(model.parameters(), {.lr = 0.1})).model;
      return error_of([&] { net(input); });
    };
    Tensors learned = x;
    learned.set("weight", ones({2}).requires_grad_());
    CHECK(text_with(false, learned) ==
          "hybrid_parallel: " + std::string(mode) +
              ": 0 takes weight, which needs a gradient, besides its tokens; want "
              "sequence_parallelism_mode none for this model");
    const NoGradGuard no_grad;
    CHECK(contains(text_with(true, x), ": 1 computes weight besides its tokens"));
  }
}
TEST_CASE("sequence modes leave masks whole, and refuse other tensors that need a gradient") {
  CHECK(failures(Ranks("rank: masks beside shared tokens", 2).wait(60)) == "");
}

TEST_CASE("rank: other named batches" * doctest::skip()) {
  const World world = launch_from_env();
  const Tensors x = {{"x", ones({2, 4, 8})}, {"mask", ones({2, 4}, {.dtype = DType::boolean})}};
  const Model model = masked_blocks(false);
  HybridParallelOptions options = sequence_options("split_gather", 2);
  options.sequence_parallelism_mode = "none";
  Booster booster({.plugin = HybridParallelPlugin(options, world.group())});
  const BoostedModel net = booster.boost(model, SGD(model.parameters(), {.lr = 0.1})).model;
  CHECK(error_of([&] { net(x); }) == "");
  Tensors other = x;
  if (world.rank == 1) other.set("mask", zeros({2, 4}, {.dtype = DType::boolean}));
  CHECK(contains(error_of([&] { net(other); }), "got another input mask on"));
  other = x;
  if (world.rank == 1) other.set("more", ones({2}));
  CHECK(contains(error_of([&] { net(other); }), "(names)"));
}
TEST_CASE("ranks that share a batch are told which of its tensors differs") {
  CHECK(failures(Ranks("rank: other named batches", 2).wait(60)) == "");
}

}  // namespace booster::testing::named_blocks
