// A small network trained under a Diagnose, and its report.
#pragma once

#include "booster/booster.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace booster::test {

using numerics::Finding;

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Two named layers with a function between them.
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

  const Finding* of(numerics::Pitfall pitfall) const {
    for (const auto& finding : findings)
      if (finding.pitfall == pitfall) return &finding;
    return nullptr;
  }
};

inline Outcome diagnosed(const Case& one) {
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

}  // namespace booster::test
