// Every failure in a pipeline is an error with a reason, on all ranks, and never a hang.
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <string>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t layer_width = 6;

PipelineOptions two_microbatches() { return {.num_microbatches = 2}; }

// Returns the error of a call on a boosted training in stages.
std::string error_in_training(const Model& model, const PipelineOptions& options,
                              const Group& group,
                              const std::function<void(Booster&, BoostedTriple&)>& call) {
  return error_of([&] {
    Booster booster({.plugin = StagesPlugin(group, options)});
    BoostedTriple boosted =
        booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), mean_of_squares());
    call(booster, boosted);
  });
}

void train_once(Booster& booster, BoostedTriple& boosted, int64_t rows) {
  auto& [model, optimizer, loss] = boosted;
  train_on(ones({rows, layer_width}), ones({rows, layer_width}), booster, model, loss, optimizer);
}

bool says(const std::string& text, const char* part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

Model two_layers() {
  return Sequential({Linear(layer_width, layer_width), Linear(layer_width, layer_width)});
}

// A module whose own weight belongs to no link.
class Forgetful : public Module {
 public:
  Forgetful() : Module("Forgetful"), weight(add_parameter("weight", ones({2}))) {}
  const Tensor weight;
  int link_count() const override { return 2; }
  Link link(int i) const override { return {std::to_string(i), {}}; }

 private:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace

TEST_CASE("rank: refusals" * doctest::skip()) {
  const World world = launch_from_env();
  const Group group = world.group();
  const auto nothing = [](Booster&, BoostedTriple&) {};
  says(error_in_training(Linear(layer_width, layer_width), two_microbatches(), group, nothing),
       "has 1 link,");
  says(error_in_training(Forgetful(), two_microbatches(), group, nothing),
       "no link of the Forgetful uses weight");
  says(error_in_training(two_layers(), two_microbatches(), group,
                         [](Booster&, BoostedTriple& boosted) {
                           auto& [model, optimizer, loss] = boosted;
                           model(ones({2, layer_width}));
                         }),
       "booster.execute_pipeline");
  says(error_in_training(two_layers(), two_microbatches(), group,
                         [](Booster& booster, BoostedTriple& boosted) {
                           const NoGradGuard no_grad;
                           train_once(booster, boosted, 4);
                         }),
       "got a NoGradGuard");
  says(error_in_training(
           two_layers(), two_microbatches(), group,
           [](Booster& booster, BoostedTriple& boosted) { train_once(booster, boosted, 0); }),
       "a batch has no rows");
  const auto options = [&](const PipelineOptions& given, const char* text) {
    says(error_of([&] { StagesPlugin(group, given); }), text);
  };
  options({}, "exactly one of num_microbatches and microbatch_size");
  options({.num_microbatches = 2, .microbatch_size = 2}, "got 2 and 2");
  options({.num_microbatches = 2, .num_model_chunks = 2}, "needs 1 chunk of the model");
  options({.style = PipelineStyle::interleaved, .num_microbatches = 2}, "needs 2 chunks or more");
  options({.style = PipelineStyle::interleaved, .num_microbatches = 3, .num_model_chunks = 2},
          "need a multiple of 2 microbatches; got 3");
  options({.num_microbatches = 2, .links_per_piece = {1, 1}, .first_links = {"1"}},
          "one of the two, or neither");
}
TEST_CASE("what a pipeline cannot do is an error before anything is sent") {
  CHECK(failures(Ranks("rank: refusals", 2).wait(60)) == "");
}

TEST_CASE("rank: other batches" * doctest::skip()) {
  const World world = launch_from_env();
  const std::string text = error_in_training(two_layers(), two_microbatches(), world.group(),
                                             [&](Booster& booster, BoostedTriple& boosted) {
                                               train_once(booster, boosted, 4);
                                               train_once(booster, boosted, 4 + 2 * world.rank);
                                             });
  if (world.rank == 1)
    says(text, "stages run different work");
  else says(text, "rank 1");
}
TEST_CASE("stages that are given different batches are told, and none waits for ever") {
  const std::vector<RankResult> results = Ranks("rank: other batches", 2).wait(60);
  CHECK(failures(results) == "");
}

TEST_CASE("rank: a loss of all parameters" * doctest::skip()) {
  const World world = launch_from_env();
  const Model model = two_layers();
  const Criterion decay("decay", [&](const Tensor& y, const Tensor& target) {
    Tensor loss = mse_loss(y, target);
    for (const NamedTensor& parameter : model.parameters())
      loss = loss + sum(parameter.tensor * parameter.tensor);
    return loss;
  });
  Booster booster({.plugin = StagesPlugin(world.group(), two_microbatches())});
  BoostedTriple boosted = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), decay);
  says(error_of([&] { train_once(booster, boosted, 4); }),
       "belongs to another stage and is empty on this one");
}
TEST_CASE("a loss that reads parameters of other stages is told so") {
  CHECK(failures(Ranks("rank: a loss of all parameters", 2).wait(60)) == "");
}

// A failing rank ends, and the others see its error.
TEST_CASE("rank: a stage that fails" * doctest::skip()) {
  const World world = launch_from_env();
  const Model model =
      Sequential({Linear(layer_width, layer_width), Linear(layer_width, layer_width),
                  Linear(layer_width, layer_width)});
  dynamic_cast<Sequential&>(model.module())[1].register_forward_hook(
      [](Module&, const Tensor&, const Tensor& y) -> Tensor {
        if (y.size(0) == 3) fail("this layer does not like three rows");
        return {};
      });
  const std::string text = error_in_training(
      model, two_microbatches(), world.group(), [&](Booster& booster, BoostedTriple& boosted) {
        train_once(booster, boosted, 4);
        const std::string first = error_of([&] { train_once(booster, boosted, 6); });
        if (world.rank == 1) {
          says(first, "does not like three rows");
          says(error_of([&] { train_once(booster, boosted, 4); }), "an earlier batch failed");
          std::_Exit(3);  // like a program that ends with that error
        }
        fail("{}", first);
      });
  says(text, "rank 1");
}
TEST_CASE("an error on one stage ends all of them with a text, and without a hang") {
  const std::vector<RankResult> results = Ranks("rank: a stage that fails", 3).wait(60);
  REQUIRE(results.size() == 3);
  CHECK(results[0].passed());
  CHECK(WEXITSTATUS(results[1].status) == 3);
  CHECK(results[2].passed());
}
