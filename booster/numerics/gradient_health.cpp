#include "booster/numerics/gradient_health.h"

#include "core/tensor/absence.h"
#include "core/tensor/checks/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace booster::numerics {

namespace {

constexpr double headroom = 16, largest_scale = 0x1p24;

void add_gradient(ParameterHealth& health, double true_value, double loss_scale) {
  ++health.gradients;
  const double magnitude = std::fabs(true_value), scaled = magnitude * loss_scale;
  health.zeros += magnitude == 0;
  health.underflows += magnitude > 0 && scaled <= f16_underflows_to;
  health.overflows += !(scaled < f16_overflows_from);
  if (std::isfinite(magnitude)) health.largest = std::max(health.largest, magnitude);
}

// Returns true if adding `update` to a weight of that dtype does not change it, or may not (a tie).
bool is_lost(double weight, double update, DType dtype) {
  return std::fabs(update) < unit_in_last_place(weight, dtype) / 2;
}

using OwnedParts = std::map<std::string, OwnedPart>;

// Returns the part of x that the optimizer owns; x has the parameter's shape or is already that
// part.
std::vector<double> owned_of(const Tensor& x, const NamedTensor& parameter,
                             const OwnedParts& parts) {
  std::vector<double> values = x.to_vector<double>();
  const auto part = parts.find(parameter.name);
  if (part == parts.end() || x.shape() != parameter.tensor.shape()) return values;
  const auto [begin, end] = part->second.range;
  return {values.begin() + begin, values.begin() + end};
}

// Returns the values that the optimizer updates.
std::vector<double> updated(const Optimizer& optimizer, const NamedTensor& parameter,
                            const OwnedParts& parts) {
  const Tensor master = optimizer.master(parameter.name);
  return owned_of(master.defined() ? master : numbers_here(parameter.tensor), parameter, parts);
}

}  // namespace

double ParameterHealth::share_underflow() const { return share(underflows, gradients); }
double ParameterHealth::share_lost() const { return share(lost, updates); }
double ParameterHealth::share_overflow() const { return share(overflows, gradients); }

void GradientHealth::before_step(const Optimizer& optimizer, double scale, double loss_scale) {
  before_.clear();
  const OwnedParts parts = optimizer.state_dict().parts;
  for (const auto& parameter : optimizer.parameters_with_grad()) {
    ParameterHealth& health = parameters_[parameter.name];
    health.dtype = name_of(parameter.tensor.dtype());
    health.has_master = optimizer.master(parameter.name).defined();
    ++health.steps;
    for (const double g : owned_of(parameter.tensor.grad(), parameter, parts))
      add_gradient(health, g / scale, loss_scale);
    before_[parameter.name] = updated(optimizer, parameter, parts);
  }
}

void GradientHealth::after_step(const Optimizer& optimizer) {
  const OwnedParts parts = optimizer.state_dict().parts;
  for (const auto& parameter : optimizer.parameters_with_grad()) {
    const auto found = before_.find(parameter.name);
    if (found == before_.end()) continue;
    ParameterHealth& health = parameters_[parameter.name];
    const std::vector<double>& old = found->second;
    const auto now = updated(optimizer, parameter, parts),
               gradient = owned_of(parameter.tensor.grad(), parameter, parts);
    const bool in_16_bits = is_16_bit(parameter.tensor.dtype()) && !health.has_master;
    for (size_t i = 0; i < old.size(); ++i) {
      const double update = now[i] - old[i];
      if (in_16_bits) {  // a lost update only shows as a gradient without effect
        health.updates += gradient[i] != 0;
        health.lost += gradient[i] != 0 && update == 0;
        continue;
      }
      if (update == 0) continue;
      ++health.updates;
      health.lost_bf16 += is_lost(old[i], update, DType::bf16);
      health.lost_f16 += is_lost(old[i], update, DType::f16);
    }
  }
  before_.clear();
}

double GradientHealth::suggested_scale() const {
  double largest = 0;
  for (const auto& [name, health] : parameters_) largest = std::max(largest, health.largest);
  if (largest == 0) return 0;
  return std::min(largest_scale,
                  std::exp2(std::floor(std::log2(f16_largest / headroom / largest))));
}

namespace {

// Returns the share that 16 bits lose.
double loss_of(const ParameterHealth& h) {
  return h.share_overflow() + h.share_underflow() + h.share_lost();
}

std::string line(const std::string& name, const ParameterHealth& h) {
  const bool in_16_bits = h.dtype != "f32" && !h.has_master;
  const auto lost = [&](int64_t would_lose, const char* dtype) -> std::string {
    if (!in_16_bits) return fmt::format("({:.1f} %)", 100 * share(would_lose, h.updates));
    return h.dtype == dtype ? fmt::format("{:.1f} %", 100 * h.share_lost()) : "";
  };
  return fmt::format("{:<36} {:>10.3g} {:>8.2f} {:>8.2f} {:>8.2f} {:>10} {:>10}\n", name, h.largest,
                     100 * share(h.zeros, h.gradients), 100 * h.share_underflow(),
                     100 * h.share_overflow(), lost(h.lost_bf16, "bf16"), lost(h.lost_f16, "f16"));
}

}  // namespace

std::string GradientHealth::table() const {
  std::vector<const std::pair<const std::string, ParameterHealth>*> rows;
  for (const auto& row : parameters_) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return loss_of(a->second) > loss_of(b->second);
  });
  std::string text = fmt::format("{:<36} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10}\n", "gradients",
                                 "largest", "zero %", "under %", "over %", "lost bf16", "lost f16");
  for (size_t i = 0; i < rows.size() && i < rows_shown; ++i)
    text += line(rows[i]->first, rows[i]->second);
  if (rows.size() > rows_shown)
    text += fmt::format("{} more in numerics.json, none of them worse\n", rows.size() - rows_shown);
  return text + "(in brackets: losses of a 16-bit weight; this weight, or its master, is f32)\n";
}

nlohmann::ordered_json GradientHealth::to_json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [name, h] : parameters_)
    rows.push_back({{"parameter", name},
                    {"dtype", h.dtype},
                    {"master", h.has_master},
                    {"steps", h.steps},
                    {"largest_gradient", h.largest},
                    {"zero_share", share(h.zeros, h.gradients)},
                    {"underflow_share", h.share_underflow()},
                    {"overflow_share", h.share_overflow()},
                    {"updates", h.updates},
                    {"lost_share", share(h.lost, h.updates)},
                    {"would_lose_bf16", share(h.lost_bf16, h.updates)},
                    {"would_lose_f16", share(h.lost_f16, h.updates)}});
  return rows;
}

}  // namespace booster::numerics
