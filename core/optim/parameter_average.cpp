#include "core/optim/optimizers.h"

#include "core/optim/optimizer_body.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace booster {
namespace {

void check_share(const char* name, double value) {
  check(value >= 0 && value <= 1, "ParameterAverage: {} is out of range; got {}, want [0, 1]", name,
        value);
}

void update_average(OptimizedParameter& p, double decay) {
  if (!p.average.defined()) return p.begin_average();  // its group was added later
  if (p.average.dtype() != p.state_dtype())            // the model was converted since
    p.average = untracked::cast(p.average, p.state_dtype());
  const Tensor value = untracked::cast(p.value(), p.average.dtype()).to(p.home());
  p.average.mul_(decay).add_(value, 1 - decay);
}

// Writes the parameter and bumps its version, which invalidates cached copies of it.
void write(const OptimizedParameter& p, const Tensor& numbers) {
  p.working().copy_(numbers);
  p.tensor.bump_version();
}

}  // namespace

ParameterAverage::ParameterAverage(const Optimizer& optimizer, ParameterAverageOptions options)
    : optimizer_(optimizer), options_(options) {
  check_share("decay", options.decay);
  check_share("min_decay", options.min_decay);
  check(options.warmup_gamma > 0 && options.warmup_power > 0,
        "ParameterAverage: warm-up is out of range; got gamma {} and power {}, want more than 0",
        options.warmup_gamma, options.warmup_power);
  optimizer_.body_->for_each([](OptimizedParameter& p) { p.begin_average(); });
}

double ParameterAverage::decay(std::optional<int64_t> step) const {
  if (!step) return options_.decay;
  const int64_t t = *step - options_.update_after_step - 1;
  if (t <= 0) return 0;
  if (!options_.warmup) return options_.decay;
  const double grown =
      1 - std::pow(1 + static_cast<double>(t) / options_.warmup_gamma, -options_.warmup_power);
  return std::max(std::min(grown, options_.decay), options_.min_decay);
}

void ParameterAverage::update(std::optional<int64_t> step) {
  const double now = decay(step);
  optimizer_.body_->for_each([&](OptimizedParameter& p) { update_average(p, now); });
}

std::map<std::string, Tensor> ParameterAverage::state_dict() const {
  std::map<std::string, Tensor> state;
  optimizer_.body_->for_each([&](OptimizedParameter& p) {
    if (p.average.defined()) state.emplace(p.name, p.average);
  });
  return state;
}

void ParameterAverage::load_state_dict(const std::map<std::string, Tensor>& state) {
  const auto now = state_dict();
  for (const auto& [name, average] : now) {
    const auto found = state.find(name);
    check(found != state.end(), "ParameterAverage: the state lacks {}", name);
    check(found->second.shape() == average.shape(),
          "ParameterAverage: {} has the wrong shape; got {}, want {}", name, found->second.shape(),
          average.shape());
  }
  check(state.size() == now.size(),
        "ParameterAverage: the state has parameters that the optimizer lacks; got {}, want {}",
        state.size(), now.size());
  for (const auto& [name, average] : now) Tensor(average).copy_(state.at(name));
}

AveragedWeights::AveragedWeights(const ParameterAverage& average, std::function<void()> exchange)
    : optimizer_(average.optimizer_),
      exchange_(std::move(exchange)),
      errors_before_(std::uncaught_exceptions()) {
  optimizer_.body_->for_each([&](OptimizedParameter& p) {
    p.refresh_master();  // weights may have been loaded since the last step
    before_.push_back(untracked::clone(p.working()));
    if (p.average.defined()) write(p, p.average);
  });
  share_written();
}

AveragedWeights::~AveragedWeights() {
  auto before = before_.begin();
  optimizer_.body_->for_each([&](OptimizedParameter& p) { write(p, *before++); });
  try {
    share_written();
  } catch (const Error&) {
    // A rank has ended; the next call that needs it reports that.
  }
}

// Exchanges the written values and marks them as in step. Otherwise the optimizer would treat them
// as newly loaded weights.
void AveragedWeights::share_written() {
  if (exchange_ && std::uncaught_exceptions() == errors_before_) exchange_();
  optimizer_.body_->for_each([](OptimizedParameter& p) { p.mark_in_step(); });
}

}  // namespace booster
