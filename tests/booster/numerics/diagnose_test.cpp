// Diagnose: its counts, where it finds the first bad value, and its silence about a healthy
// training.
#include "core/autograd/observer.h"
#include "examples/vit_caltech101/program_config.h"
#include "tests/booster/numerics/diagnosed.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::numerics;
using namespace booster::test;
using doctest::Contains;

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
      CHECK(row["made"] == 2 + 4);  // the inputs, and each weight and bias once
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
    for (const Finding& finding : seen.findings)
      CHECK(
          (finding.pitfall == Pitfall::unlisted_ops || finding.pitfall == Pitfall::awkward_sizes));
  }
}

TEST_CASE("an overflow of scaled gradients is told as an expected back-off") {
  const Outcome seen = diagnosed({.input = 3000});  // dW = 3000 * 65536 / 12
  REQUIRE(seen.of(Pitfall::occasional_overflow));
  CHECK(seen.of(Pitfall::occasional_overflow)->severity == Severity::info);
  CHECK(seen.of(Pitfall::occasional_overflow)->text.find("scale too high") != std::string::npos);
  CHECK(seen.of(Pitfall::occasional_overflow)->text.find("first parameter: head.weight") !=
        std::string::npos);
  CHECK(seen.exit_code == 0);
}

TEST_CASE("a forward overflow names the op, its layer and its inputs' maxima") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) { return exp(h * 0.0 + 12.0); }});
  REQUIRE(seen.of(Pitfall::non_finite_forward));
  const Finding& finding = *seen.of(Pitfall::non_finite_forward);
  CHECK(finding.text.find("the first non-finite result is exp in model") != std::string::npos);
  CHECK(finding.text.find("magnitudes: 12") != std::string::npos);
  CHECK(finding.remedy.find("f32") != std::string::npos);
}

TEST_CASE("a weight that overflows its product is told by the layer's name") {
  const Outcome seen = diagnosed(
      {.between = [](const Tensor& h) { return h * 0.0 + 60000.0; },
       .prepare =
           [](const Model& model) { Tensor(model.parameters()[2].tensor.detach()).fill_(1); }});
  REQUIRE(seen.of(Pitfall::non_finite_forward));
  CHECK(seen.of(Pitfall::non_finite_forward)->object == "head");
  CHECK(seen.of(Pitfall::non_finite_forward)->text.find("linear in head: f16 (4, 3): 12 inf") !=
        std::string::npos);
  CHECK(seen.of(Pitfall::non_finite_forward)->text.find("magnitudes: 6e+04, 1") !=
        std::string::npos);
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

TEST_CASE("a mask of -inf that the loss survives is not told") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) {
    const Tensor row = from_vector<float>({0, 0, 0, 0, 0, 0, 0, -INFINITY}, {8});
    return softmax(h + cast(row, DType::f16), -1);
  }});
  CHECK(seen.exit_code == 0);
  for (const Finding& finding : seen.findings)
    CHECK((finding.pitfall == Pitfall::unlisted_ops || finding.pitfall == Pitfall::awkward_sizes));
}

TEST_CASE("the tensor checker ends a training at the first bad number, or lists all") {
  const TemporaryFolder folder;
  DiagnoseOptions options;
  options.checker = {.mode = CheckMode::abort, .file = folder / "worker_cpu"};
  const auto overflow = [](const Tensor& h) { return exp(h * 0.0 + 12.0); };
  CHECK_THROWS_WITH_AS(diagnosed({.between = overflow, .options = options}),
                       Contains("step 1: exp gave 0 nan and 32 inf among 32 values"), Error);
  CHECK(current_observer() == nullptr);
  options.checker.mode = CheckMode::all;
  const Outcome seen = diagnosed({.options = options});
  CHECK(seen.json["checker"]["with_errors"] == 0);
  const std::string lines = folder.read("worker_cpu");
  CHECK(lines.find("op=linear, tensor=hidden, dtype=fp16], numel=32") != std::string::npos);
  CHECK(lines.find("tensor=head.weight@GRAD, dtype=fp32]") != std::string::npos);
}

TEST_CASE("layers that matrix units do not like are told, where 16 bits are used") {
  const Outcome seen = diagnosed({});
  bool told = false;
  for (const Finding& finding : seen.findings)
    told |= finding.pitfall == Pitfall::awkward_sizes && finding.object == "head (linear)" &&
            finding.text.find("N = 3 (want 8)") != std::string::npos;
  CHECK(told);
  CHECK_FALSE(diagnosed({.strategy = "fp32"}).of(Pitfall::awkward_sizes));
}

TEST_CASE("--diagnose takes a range of steps or none") {
  const auto range = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    const Config config = Config::from_args(static_cast<int>(arguments.size()),
                                            arguments.data(), example::program_config());
    return config.get<std::string>("train.diagnose");
  };
  CHECK(range({}) == "");
  CHECK(range({"--diagnose", "2:3"}) == "2:3");
  CHECK(range({"--diagnose=4:5"}) == "4:5");
  CHECK(range({"--diagnose"}) == "1:1000000000000");
  CHECK(range({"--diagnose", "--set", "train.epochs=1"}) == "1:1000000000000");
  CHECK_THROWS_WITH_AS(range({"--diagnose=5:4"}), Contains("train.diagnose: wrong range of steps"),
                       Error);
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
  CHECK_THROWS_WITH_AS(Diagnose{net}, Contains("another one is active"), Error);
}
