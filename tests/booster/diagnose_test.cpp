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
    for (const Finding& finding : seen.findings) CHECK((finding.rule == 6 || finding.rule == 4));
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

TEST_CASE("pitfall 11: gradients left from a skipped step are told by name") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  Diagnose doctor(net);
  for (const double input : {infinity, 1.0}) {  // without zero_grad
    booster.backward(mean(cast(net(full({4, 6}, input)), DType::f32)), opt);
    opt.step();
  }
  REQUIRE(doctor.findings().size() >= 2);
  const auto found = doctor.findings();
  CHECK(found[1].rule == 11);
  CHECK(found[1].step == 2);
  CHECK(found[1].remedy.find("zero_grad") != std::string::npos);
}

TEST_CASE("pitfall 9: many skipped steps in a row are a collapse") {
  const Outcome seen = diagnosed({.steps = 12, .input = infinity});
  REQUIRE(seen.of(9));
  CHECK(seen.of(9)->text.find("10 steps in a row were skipped") != std::string::npos);
  CHECK(seen.exit_code == 3);
}

TEST_CASE("pitfall 14: clipping scaled gradients is told with the scale") {
  const Outcome wrong = diagnosed(
      {.before_step = [](BoostedPair& pair) { pair.optimizer.unwrap().clip_grad_by_value(1); }});
  REQUIRE(wrong.of(14));
  CHECK(wrong.of(14)->text.find("65536") != std::string::npos);
  const Outcome right =
      diagnosed({.before_step = [](BoostedPair& pair) { pair.optimizer.clip_grad_by_value(1); }});
  CHECK_FALSE(right.of(14));
  CHECK_FALSE(right.of(29));
}

TEST_CASE("pitfall 29: gradients changed after the look for inf are told") {
  const Outcome seen = diagnosed({.before_step = [](BoostedPair& pair) {
    pair.optimizer.clip_grad_by_value(1);
    for (const auto& [name, parameter] : pair.optimizer.unwrap().parameters_with_grad())
      Tensor(parameter.grad()).mul_(2);
  }});
  REQUIRE(seen.of(29));
  CHECK(seen.of(29)->text.find("hidden.weight") != std::string::npos);
}

TEST_CASE("pitfall 18: parameters without gradients are told by name") {
  const Outcome seen = diagnosed({.strategy = "bf16", .before_step = [](BoostedPair& pair) {
                                    clear_grad(pair.optimizer.unwrap().parameters()[0].tensor);
                                  }});
  REQUIRE(seen.of(18));
  CHECK(seen.of(18)->text == "no gradient at hidden.weight");
  CHECK(seen.of(18)->severity == Severity::warning);
}

TEST_CASE("pitfall 20: a learning rate that moves after a skipped step is told") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  Diagnose doctor(net);
  for (const double input : {infinity, 1.0}) {
    opt.zero_grad();
    booster.backward(mean(cast(net(full({4, 6}, input)), DType::f32)), opt);
    opt.step();
    opt.unwrap().set_lr(0.05);
  }
  bool told = false;
  for (const Finding& finding : doctor.findings()) told |= finding.rule == 20;
  CHECK(told);
}

TEST_CASE("pitfalls 38 and 39: gradients of parameters that nobody updates are told") {
  Booster booster;
  Model model = Net();
  auto [net, opt] =
      booster.boost(model, SGD(std::vector<Tensor>{model.parameters()[0].tensor}, {.lr = 0.1}));
  Diagnose doctor(net);
  Tensor late = ones({3});
  late.requires_grad_();
  booster.backward(mean(net(ones({2, 6})) * late), opt);
  opt.step();
  bool unowned = false, unknown = false;
  for (const Finding& finding : doctor.findings()) {
    unowned |= finding.rule == 38 && finding.object == "head.weight";
    unknown |= finding.rule == 39 && finding.object == "a leaf of shape (3,)";
  }
  CHECK(unowned);
  CHECK(unknown);
}

TEST_CASE("pitfall 33: an op on another thread without the policy is told") {
  const Outcome seen =
      diagnosed({.before_step = [](BoostedPair&) { std::thread([] { relu(ones({2})); }).join(); }});
  REQUIRE(seen.of(33));
  CHECK(seen.of(33)->object == "relu");
}

TEST_CASE("pitfall 32: updates that a 16-bit weight loses are told with their share") {
  Booster booster;
  Model model = Net();
  model->to(DType::bf16);
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 1e-6}));
  Diagnose doctor(net);
  booster.backward(mean(cast(net(ones({2, 6}, {.dtype = DType::bf16})), DType::f32)), opt);
  opt.step();
  doctor.stop();
  bool told = false;
  for (const Finding& finding : doctor.findings())
    told |= finding.rule == 32 && finding.object == "head.weight";
  CHECK(told);
}

TEST_CASE("pitfall 30: gradients that f16 flushes to 0 are told, with a scale to begin with") {
  const auto small = [](double scale) {
    Booster booster({.mixed_precision = FP16TorchMixedPrecision({.init_scale = scale})});
    Model model = Net();
    auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    Diagnose doctor(net);
    booster.backward(mean(cast(net(ones({2, 6})), DType::f32)), opt);
    for (const auto& [name, parameter] : opt.unwrap().parameters_with_grad())
      Tensor(parameter.grad()).fill_(1e-9 * scale);
    opt.step();
    doctor.stop();
    CHECK(doctor.to_json()["suggested_loss_scale"] == 0x1p24);
    for (const Finding& finding : doctor.findings())
      if (finding.rule == 30) return true;
    return false;
  };
  CHECK(small(1));
  CHECK_FALSE(small(65536));
}

TEST_CASE("pitfall 2: a mask constant that f16 cannot hold is told at the cast") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) {
    const Tensor mask = cast(full({4, 8}, -1e9), DType::f16);
    return h * mask;
  }});
  REQUIRE(seen.of(2));
  CHECK(seen.of(2)->severity == Severity::error);
  CHECK(seen.of(2)->text.find("cast") != std::string::npos);
  CHECK(seen.of(2)->text.find("1e+09") != std::string::npos);
  CHECK(seen.of(2)->remedy.find("-inf") != std::string::npos);
}

TEST_CASE("pitfall 3: rows of nothing but -inf are told at the softmax") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) {
    return softmax(h * 0.0 + full({4, 8}, -infinity), -1);
  }});
  REQUIRE(seen.of(3));
  CHECK(seen.of(3)->text.find("first not finite is softmax") != std::string::npos);
}

TEST_CASE("pitfall 5: a sum that overflows in f16 is told at the sum") {
  const Outcome seen = diagnosed(
      {.between = [](const Tensor& h) { return h + sum(h * 0.0 + 30000.0, {-1}, true); }});
  REQUIRE(seen.of(5));
  CHECK(seen.of(5)->text.find("first not finite is sum") != std::string::npos);
  CHECK(seen.exit_code == 3);
}

TEST_CASE("a mask of -inf that the loss survives is not told") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) {
    const Tensor row = from_vector<float>({0, 0, 0, 0, 0, 0, 0, -INFINITY}, {8});
    return softmax(h + cast(row, DType::f16), -1);
  }});
  CHECK(seen.exit_code == 0);
  for (const Finding& finding : seen.findings) CHECK((finding.rule == 6 || finding.rule == 4));
}

TEST_CASE("the tensor checker ends a training at the first bad number, or lists all") {
  const TemporaryFolder folder;
  DiagnoseOptions options;
  options.checker = {.mode = CheckMode::abort, .file = folder / "worker_cpu"};
  const auto overflow = [](const Tensor& h) { return exp(h * 0.0 + 12.0); };
  CHECK_THROWS_WITH_AS(diagnosed({.between = overflow, .options = options}),
                       Contains("step 1: exp gave 0 nan and 32 inf among 32 numbers"), Error);
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
    told |= finding.rule == 4 && finding.object == "head (linear)" &&
            finding.text.find("N = 3 (want 8)") != std::string::npos;
  CHECK(told);
  CHECK_FALSE(diagnosed({.strategy = "fp32"}).of(4));
}

TEST_CASE("--diagnose takes a range of steps or none") {
  const auto range = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    const Config config = Config::from_args(static_cast<int>(arguments.size()), arguments.data());
    return config.get<std::string>("train.diagnose");
  };
  CHECK(range({}) == "");
  CHECK(range({"--diagnose", "2:3"}) == "2:3");
  CHECK(range({"--diagnose=4:5"}) == "4:5");
  CHECK(range({"--diagnose"}) == "1:1000000000000");
  CHECK(range({"--diagnose", "--set", "train.epochs=1"}) == "1:1000000000000");
  CHECK_THROWS_WITH_AS(range({"--diagnose=5:4"}), Contains("train.diagnose: bad range"), Error);
}

TEST_CASE("pitfall 40: a loss of several numbers is refused before it is scaled") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  CHECK_THROWS_WITH_AS(booster.backward(net(ones({2, 6})), opt),
                       Contains("the loss must have one element; got shape (2, 3)"), Error);
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
