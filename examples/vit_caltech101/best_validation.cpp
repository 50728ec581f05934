#include "examples/vit_caltech101/best_validation.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace example {

BestValidation::BestValidation(std::string metric, int64_t patience, double min_delta)
    : metric_(std::move(metric)), patience_(patience), min_delta_(min_delta) {}

bool BestValidation::is_better(double value, double than, double by) const {
  if (!std::isfinite(value)) return false;
  if (best_step_ < 0) return true;
  const bool less = metric_.ends_with("loss");
  return less ? value < than - by : value > than + by;
}

bool BestValidation::see(int64_t step, double value) {
  const bool best = is_better(value, best_, 0);
  if (is_better(value, awaited_, min_delta_)) {
    awaited_ = value;
    waited_ = 0;
  } else {
    ++waited_;
  }
  if (!best) return false;
  best_ = value;
  best_step_ = step;
  return true;
}

std::string BestValidation::told() const {
  return best_step_ < 0 ? "" : fmt::format("{} {:.4f} in step {}", metric_, best_, best_step_);
}

nlohmann::json BestValidation::state() const {
  return {{"metric", metric_},
          {"step", best_step_},
          {"value", best_},
          {"awaited", awaited_},
          {"waited", waited_}};
}

void BestValidation::load(const booster::StateReader& state) {
  const auto in = state.members({"metric", "step", "value", "awaited", "waited"});
  if (in[0].text() != metric_) return;
  best_step_ = in[1].whole_from(-1);
  best_ = in[2].number();
  awaited_ = in[3].number();
  waited_ = in[4].count();
}

}  // namespace example
