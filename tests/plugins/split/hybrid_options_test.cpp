// Options of hybrid_parallel that change no values, and its errors for incorrect use.
#include "core/nn/joined_traits.h"
#include "tests/capture_part.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"
#include "tests/plugins/small_vit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <exception>

#include <sys/wait.h>

using namespace booster;
using namespace booster::testing;

namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void check_says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
}

struct ToldRun {
  std::vector<double> told;  // loss and norm of each step
  int64_t attentions = 0;    // that ran on this rank
};

ToldRun told_run(HybridParallelOptions options, bool recompute) {
  options.recompute = recompute;
  manual_seed(3);
  const Model model = small_vit();
  ToldRun result;
  for (const auto& [name, module] : model->named_modules())
    if (module->attention_heads() > 0)
      module->register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
        ++result.attentions;
        return Tensor();
      });
  Booster booster({.plugin = HybridParallelPlugin(options, launch_from_env().group())});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), mean_of_squares());
  manual_seed(9);
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor x = numbers({4, 3, 48, 48}, step), y = numbers({4, 5}, 9 + step);
    result.told.push_back(train_on(x, y, booster, net, loss, optimizer).item());
    result.told.push_back(optimizer.step().grad_norm());
    optimizer.zero_grad();
  }
  return result;
}

const std::vector<HybridParallelOptions> layouts = {
    {.tp_size = 2},
    {.tp_size = 2, .sequence_parallelism_mode = "split_gather"},
    {.sp_size = 2, .sequence_parallelism_mode = "all_to_all"},
    {.sp_size = 2, .sequence_parallelism_mode = "ring_attn"},
    {.pp_size = 2, .pp_style = "1f1b", .stages = {2, 2}},
    {.pp_size = 2, .pp_style = "zero_bubble", .stages = {2, 2}},
    {.zero_stage = 3}};

// Returns the second rank's error when it gets another batch than the first.
std::string told_of(const HybridParallelOptions& options, const Tensor& x, const Tensor& y) {
  const Model model = small_vit();
  Booster booster({.plugin = HybridParallelPlugin(options, launch_from_env().group())});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), mean_of_squares());
  return error_of([&, &net = net, &optimizer = optimizer, &loss = loss] {
    train_on(x, y, booster, net, loss, optimizer);
  });
}

}  // namespace

TEST_CASE("rank: recomputes" * doctest::skip()) {
  for (const HybridParallelOptions& options : layouts) {
    INFO("tp ", options.tp_size, " pp ", options.pp_size, " ", options.sequence_parallelism_mode);
    const ToldRun plain = told_run(options, false), again = told_run(options, true);
    CHECK(plain.attentions > 0);
    CHECK(again.attentions == 2 * plain.attentions);
    for (size_t i = 0; i < plain.told.size(); ++i)
      CHECK(again.told[i] == doctest::Approx(plain.told[i]).epsilon(1e-5));
  }
}
TEST_CASE("blocks that run again in backward drop the same elements, in every layout") {
  CHECK(failures(Ranks("rank: recomputes", 2).wait(200)) == "");
}

TEST_CASE("rank: other batches than its group" * doctest::skip()) {
  const bool odd = launch_from_env().rank == 1;
  const Tensor x = numbers({4, 3, 48, 48}, 1), y = numbers({4, 5}, 2),
               other_x = numbers({4, 3, 48, 48}, 3), other_y = numbers({4, 5}, 4);
  const std::pair<HybridParallelOptions, const char*> axes[] = {
      {layouts[0], "tensor"}, {layouts[3], "sequence"}, {layouts[4], "pipeline"}};
  for (const auto& [options, axis] : axes) {
    CAPTURE_PART(axis);
    const std::string who = fmt::format("on rank 1 ({0} 1) than on rank 0 ({0} 0) (numbers)", axis);
    check_says(told_of(options, odd ? other_x : x, y), "got another input " + who);
    check_says(told_of(options, x, odd ? other_y : y), "got another target " + who);
    const Tensor short_x = untracked::narrow(x, 0, 0, 2), short_y = untracked::narrow(y, 0, 0, 2);
    check_says(told_of(options, odd ? short_x : x, odd ? short_y : y), "(shape or dtype)");
    CHECK(told_of(options, odd ? x * (1 + 1e-6) : x, y) == "");  // rounded differently
  }
}
TEST_CASE("ranks that share a batch and are given different ones are told which") {
  CHECK(failures(Ranks("rank: other batches than its group", 2).wait(200)) == "");
}

TEST_CASE("rank: mlp in parts" * doctest::skip()) {
  const Group world = launch_from_env().group();
  manual_seed(1);
  const Model parts = models::mlp({7, 8, 6, 12, 5});
  manual_seed(1);
  const Model whole = models::mlp({7, 8, 6, 12, 5});
  CHECK(joined_traits(parts.module()).tensor_plan.size() == 4);
  Booster spread({.plugin = HybridParallelPlugin({.tp_size = world.size()}, world)}),
      single({.plugin = SinglePlugin({.on_every_rank = true})});
  auto [net, optimizer, loss] =
      spread.boost(parts, SGD(parts.parameters(), {.lr = 0.3}), mean_of_squares());
  auto [alone, its_optimizer, its_loss] =
      single.boost(whole, SGD(whole.parameters(), {.lr = 0.3}), mean_of_squares());
  CHECK(parts.parameters()[0].tensor.size(0) == 8 / world.size());
  for (uint64_t step = 0; step < 5; ++step) {
    const Tensor x = numbers({4, 7}, step), y = numbers({4, 5}, 50 + step);
    CHECK(train_on(x, y, spread, net, loss, optimizer).item() ==
          doctest::Approx(train_on(x, y, single, alone, its_loss, its_optimizer).item())
              .epsilon(1e-5));
    CHECK(optimizer.step().grad_norm() ==
          doctest::Approx(its_optimizer.step().grad_norm()).epsilon(1e-5));
    optimizer.zero_grad();
    its_optimizer.zero_grad();
  }
}
TEST_CASE("an mlp by the plan that comes with it trains as one process does") {
  CHECK(failures(Ranks("rank: mlp in parts", 2).wait(100)) == "");
}

TEST_CASE("numbers of pieces that an int cannot hold are refused, not cut short") {
  constexpr int64_t wraps_to_2 = (int64_t{1} << 32) + 2;
  const auto told = [](const HybridParallelOptions& options) {
    return error_of([&] { layout_of(options); });
  };
  check_says(told({.pp_size = 2, .num_microbatches = wraps_to_2}),
             "num_microbatches is out of range; got 4294967298");
  check_says(told({.pp_size = 2, .num_microbatches = -2}), "num_microbatches is out of range");
  check_says(told({.pp_size = 2, .stages = {1, wraps_to_2}}), "stages is out of range");
  check_says(told({.pp_size = 2, .pp_style = "interleaved", .num_model_chunks = wraps_to_2}),
             "num_model_chunks is out of range");
  check_says(told({.pp_size = 2, .stage_costs = "mesured"}), "(did you mean measured?)");
  check_says(told({.pp_size = 2, .stages = {1, 1}, .stage_costs = "measured"}), "want one of them");
}

TEST_CASE("rank: is told once" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const bool has_stages = std::string(std::getenv("TEST_AXIS")) == "pipeline";
  Booster booster({.plugin = HybridParallelPlugin(
                       {.tp_size = has_stages ? 1 : 2, .pp_size = has_stages ? 2 : 1}, world)});
  const Model model = small_vit();
  booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
}
TEST_CASE("one rank tells how many reductions there are, for the whole model") {
  const size_t parameters = small_vit().parameters().size();
  for (const char* axis : {"tensor", "pipeline"}) {
    const auto results = Ranks("rank: is told once", 4, {{"TEST_AXIS", axis}}).wait(100);
    CHECK(failures(results) == "");
    std::string all;
    for (const RankResult& result : results) all += result.output;
    CHECK(count_of(all, "; after fusion ") == 1);
    check_says(results[0].output,
               fmt::format("torch_ddp: found {} all_reduce operations; after fusion ", parameters));
  }
}

TEST_CASE("rank: ends by an error of its own" * doctest::skip()) {
  const Mesh mesh(launch_from_env().group(), {{"data", 2}, {"tensor", 2}});
  mesh.world().barrier();
  report_uncaught_errors();
  try {
    fail("embedding: no such id; got {}, want 0 to 4", 9);
  } catch (const Error&) {
    std::terminate();
  }
}
TEST_CASE("an error that ends a rank says where on the mesh the rank stands") {
  const auto results = Ranks("rank: ends by an error of its own", 4).wait(100);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    CHECK(WEXITSTATUS(results[rank].status) == 2);
    check_says(results[rank].output,
               fmt::format("error: rank {} (data {}, tensor {}): embedding: no such id; got 9",
                           rank, rank / 2, rank % 2));
  }
}
