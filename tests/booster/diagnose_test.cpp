// Diagnose: what it counts, where it finds the first bad number, and that it says nothing of a
// healthy training.
#include "booster/booster.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <thread>

using namespace booster;
using namespace booster::numerics;
using doctest::Contains;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Two layers by name, and a function between them.
class Net : public Module {
 public:
  using Between = std::function<Tensor(const Tensor&)>;
  explicit Net(Between between = {}) : Module("Net"), between_(std::move(between)) {}
  Linear& hidden = add<Linear>("hidden", 6, 8);
  Linear& head = add<Linear>("head", 8, 3);

 private:
  Tensor forward(const Tensor& x) override {
    const Tensor h = relu(hidden(x));
    return head(between_ ? between_(h) : h);
  }
  Between between_;
};

struct Case {
  const char* strategy = "fp16";
  int steps = 1;
  double input = 1;
  Net::Between between = {};
  std::function<void(const Model&)> prepare = {};
  std::function<void(BoostedPair&)> before_step = {};
  DiagnoseOptions options = {};
};

struct Outcome {
  std::vector<Finding> findings;
  nlohmann::ordered_json json;
  std::string table;
  int exit_code;

  const Finding* of(int rule) const {
    for (const auto& finding : findings)
      if (finding.rule == rule) return &finding;
    return nullptr;
  }
};

Outcome diagnosed(const Case& one) {
  manual_seed(3);
  Booster booster({.mixed_precision = one.strategy});
  Model model = Net(one.between);
  if (one.prepare) one.prepare(model);
  auto boosted = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  auto& [net, opt] = boosted;
  Diagnose doctor(net, one.options);
  for (int i = 0; i < one.steps; ++i) {
    opt.zero_grad();
    const Tensor y = net(full({4, 6}, one.input));
    booster.backward(mean(cast(y, DType::f32)), opt);
    if (one.before_step) one.before_step(boosted);
    opt.step();
  }
  doctor.stop();
  return {doctor.findings(), doctor.to_json(), doctor.table(), doctor.exit_code()};
}

}  // namespace

TEST_CASE("a diagnosis counts ops by dtype, their lists, and the casts between") {
  const Outcome seen = diagnosed({.steps = 2});
  CHECK(seen.exit_code == 0);
  int found = 0;
  for (const auto& row : seen.json["ops"]) {
    if (row["op"] == "linear") {
      CHECK(row["fp16"] == 4);
      CHECK(row["fp32"] == 0);
      CHECK(row["list"] == "lower_precision");
      ++found;
    }
    if (row["op"] == "relu") {
      CHECK(row["fp16"] == 2);
      CHECK(row["list"] == "none");
      ++found;
    }
  }
  CHECK(found == 2);
  CHECK(seen.table.find("op count: ") != std::string::npos);
  bool down = false;
  for (const auto& row : seen.json["casts"])
    if (row["cast"] == "f32 to f16") {
      down = true;
      CHECK(row["made"] == 2 + 4);  // the inputs, and all weights and biases once
      CHECK(row["reused"] == 4);    // the optimizer renews the copies
      CHECK(row["bytes"].get<int>() > 0);
    }
  CHECK(down);
}

TEST_CASE("without a diagnosis nobody looks on") {
  {
    const Outcome seen = diagnosed({.options = {.steps = {5, 6}}});
    CHECK(seen.json["steps"] == 0);
    CHECK(seen.json["ops"].empty());
  }
  CHECK(current_observer() == nullptr);
}

TEST_CASE("a healthy training has no error and no warning") {
  for (const char* strategy : {"fp32", "bf16"}) {
    const Outcome seen = diagnosed({.strategy = strategy, .steps = 3});
    CHECK(seen.exit_code == 0);
    for (const Finding& finding : seen.findings) CHECK(finding.rule == 6);
  }
}

TEST_CASE("an overflow of scaled gradients is told as an expected back-off") {
  const Outcome seen = diagnosed({.input = 3000});  // dW = 3000 * 65536 / 12
  REQUIRE(seen.of(10));
  CHECK(seen.of(10)->severity == Severity::info);
  CHECK(seen.of(10)->text.find("scale too high") != std::string::npos);
  CHECK(seen.of(10)->text.find("first parameter: head.weight") != std::string::npos);
  CHECK(seen.exit_code == 0);
}

TEST_CASE("a forward overflow names the op, its layer and its inputs' maxima") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) { return exp(h * 0.0 + 12.0); }});
  REQUIRE(seen.of(36));
  const Finding& finding = *seen.of(36);
  CHECK(finding.text.find("first not finite is exp in model") != std::string::npos);
  CHECK(finding.text.find("magnitudes: 12") != std::string::npos);
  CHECK(finding.remedy.find("f32") != std::string::npos);
}

TEST_CASE("a weight that overflows its product is told by the layer's name") {
  const Outcome seen = diagnosed(
      {.between = [](const Tensor& h) { return h * 0.0 + 60000.0; },
       .prepare =
           [](const Model& model) { Tensor(model.parameters()[2].tensor.detach()).fill_(1); }});
  REQUIRE(seen.of(36));
  CHECK(seen.of(36)->object == "head");
  CHECK(seen.of(36)->text.find("linear in head: f16 (4, 3): 12 inf") != std::string::npos);
  CHECK(seen.of(36)->text.find("magnitudes: 6e+04, 1") != std::string::npos);
}

TEST_CASE("data that is not finite is told as such") {
  const Outcome seen = diagnosed({.input = infinity});
  REQUIRE(!seen.findings.empty());
  CHECK(seen.findings[0].object == "data");
  CHECK(seen.exit_code == 3);
}

TEST_CASE("a number of a parameter that is not finite is told by its name") {
  const Outcome seen = diagnosed({.before_step = [](BoostedPair& pair) {
    const NoGradGuard no_grad;
    Tensor(pair.optimizer.unwrap().parameters()[1].tensor).fill_(infinity);
    for (const auto& [name, parameter] : pair.optimizer.unwrap().parameters_with_grad())
      Tensor(parameter.grad()).fill_(infinity);
  }});
  CHECK(seen.findings[0].object == "hidden.bias");
  CHECK(seen.exit_code == 3);
}

TEST_CASE("numerics.json holds what the table says") {
  const TemporaryFolder folder;
  Booster booster;
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  Diagnose doctor(net);
  booster.backward(mean(net(ones({2, 6}))), opt);
  opt.step();
  doctor.write(folder / "numerics.json");
  const auto json = nlohmann::json::parse(folder.read("numerics.json"));
  CHECK(json["steps"] == 1);
  CHECK(json["parameters"].size() == 4);
  CHECK(json["exit_code"] == 0);
}

TEST_CASE("two doctors at once are an error") {
  Booster booster;
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  const Diagnose doctor(net);
  CHECK_THROWS_WITH_AS(Diagnose{net}, Contains("another one looks on"), Error);
}
