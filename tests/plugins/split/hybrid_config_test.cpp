// Plugin options in a config beyond numbers and names: plans in the config or in a separate file,
// alternative names, and measured stages.
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace booster;
using namespace booster::testing;

namespace {

// The chain's built-in plan leaves its last layer whole.
constexpr const char* plan =
    R"({"0": {"style": "column"}, "2": {"style": "row"},
        "4": {"style": "column", "gather": true}})";

Config with_plugin(const std::string& options) {
  return Config::from_text(R"({"booster": {"plugin": )" + options + "}}");
}
Config with_plan(const std::string& value) {
  return with_plugin(R"({"name": "hybrid_parallel", "tp_size": 2, "tensor_plan": )" + value + "}");
}

void check_cut(Booster booster) {
  const Model model = Sequential({Linear(6, 8), GELU(), Linear(8, 4), LayerNorm(4), Linear(4, 5)});
  booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  const bool is_first = booster.plugin().mesh().place("tensor") == 0;
  const Parameters parameters = model.parameters();
  CHECK(parameters[0].tensor.shape() == Shape{4, 6});
  CHECK(parameters[2].tensor.shape() == Shape{4, 4});
  CHECK(parameters[3].tensor.shape() == Shape{4});  // the bias of the sum
  CHECK(parameters[6].tensor.shape() == Shape{is_first ? 3 : 2, 4});
}

}  // namespace

TEST_CASE("rank: plans" * doctest::skip()) {
  check_cut(Booster::from_config(with_plan(plan)));
  check_cut(Booster::from_config(with_plan("\"" + std::string(std::getenv("TEST_PLAN")) + "\"")));
}
TEST_CASE("layers are cut by a plan in the config, and by one in a file") {
  const TemporaryFolder folder;
  folder.write("plan.json", plan);
  const auto results =
      Ranks("rank: plans", 2, {{"TEST_PLAN", (folder / "plan.json").string()}}).wait(100);
  CHECK(failures(results) == "");
}

TEST_CASE("mistakes in a plan say where they are, also in its file") {
  const TemporaryFolder folder;
  folder.write("plan.json",
               "{\n  \"0\": {\"style\": \"colum\"},\n  \"1\": {\"group\": 3},\n"
               "  \"2\": {\"groups\": 0}, \"3\": 4}");
  const std::string file = (folder / "plan.json").string();
  const std::string error = error_of([&] { with_plan("\"" + file + "\""); });
  INFO(error);
  for (const std::string& part :
       {file + ":2:", std::string("tensor_plan.0.style"), std::string("did you mean column?"),
        file + ":3:", std::string("did you mean groups?"),
        file + ":4:", std::string("tensor_plan.2.groups"), std::string("want an object")})
    CHECK_MESSAGE(error.find(part) != error.npos, part);
  CHECK(error_of([] { with_plan(R"({"0": {"style": "colum"}})"); }).find("did you mean column?") !=
        std::string::npos);
  folder.write("list.json", "[1]");
  CHECK(error_of([&] {
          with_plan("\"" + (folder / "list.json").string() + "\"");
        }).find("wrong type in the file") != std::string::npos);
  CHECK(error_of([] { with_plan("\"/nowhere/plan.json\""); }).find("/nowhere/plan.json") !=
        std::string::npos);
}

TEST_CASE("gemini is another name of fsdp, with its options") {
  const Config config = with_plugin(R"({"name": "gemini", "prefetch": 2})");
  const auto plugin = plugin_registry().make(config.options("booster.plugin"));
  CHECK(std::string(plugin->name()) == "fsdp");
  CHECK(plugin->layout().zero_stage == 3);
  CHECK(config.options("booster.plugin").get<int64_t>("prefetch") == 2);
  const std::string error = error_of([] { with_plugin(R"({"name": "gemini", "prefetsh": 2})"); });
  CHECK(error.find("did you mean prefetch?") != error.npos);
  const Choice<Plugin> by_name = "gemini";
  CHECK(std::string(by_name.make()->name()) == "fsdp");
}

TEST_CASE("rank: measured stages" * doctest::skip()) {
  const World world = launch_from_env();
  Booster booster = Booster::from_config(with_plugin(
      R"({"name": "hybrid_parallel", "pp_size": 2, "stage_costs": "measured", "recompute": true,
          "tp_size": )" +
      std::to_string(world.size / 2) + "}"));
  const Model model =
      models::vit("vit_tiny_patch16_224",
                  {.num_classes = 3, .img_size = 32, .embed_dim = 24, .depth = 2, .num_heads = 2});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), mean_of_squares());
  const Tensor x = ones({4, 3, 32, 32}), y = ones({4, 3});
  const double first = train_on(x, y, booster, net, loss, optimizer).item();
  optimizer.step();
  CHECK(train_on(x, y, booster, net, loss, optimizer).item() < first);
  int64_t here = 0;
  for (const NamedTensor& parameter : model.parameters()) here += parameter.tensor.numel() > 0;
  std::vector<int64_t> all = {here};
  booster.plugin().mesh().group("pipeline").all_reduce(all);
  CHECK(here > 0);
  CHECK(all[0] == static_cast<int64_t>(model.parameters().size()));  // each on one stage
}
TEST_CASE("a config may have stages cut by what links take") {
  CHECK(failures(Ranks("rank: measured stages", 2).wait(100)) == "");
  CHECK(failures(Ranks("rank: measured stages", 4).wait(100)) == "");
}
