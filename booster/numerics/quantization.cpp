#include "booster/numerics/quantization.h"

#include "booster/numerics/findings.h"
#include "core/autograd/observer.h"
#include "core/tensor/checks/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace booster::numerics {

namespace {

constexpr double notable_share = 0.05;  // of elements that become 0
// A magnitude smaller than its scale expects by this factor leaves half of e4m3's exponents unused.
// One larger by this factor is clipped to a quarter.
constexpr double too_large_for = 256, too_small_for = 4;

// Returns the record of one use; its amax is not finite if an element was not.
QuantizedTensor look_at(const QuantizeEvent& event) {
  QuantizedTensor one = {.format = event.format, .uses = 1, .numbers = event.from.numel()};
  for (const double x : event.from.detach().to_vector<double>()) {
    const double magnitude = std::fabs(x), scaled = magnitude * event.scale;
    one.underflows += magnitude > 0 && scaled <= event.underflows_to;
    one.overflows += scaled >= event.overflows_from;
    one.amax = magnitude <= one.amax ? one.amax : magnitude;  // a nan stays
  }
  one.scale = event.scale;
  one.age = event.age;
  one.scale_amax = event.age == 0 ? one.amax : event.amax;
  return one;
}

// Returns a description of the problem, or "".
std::string complaint(const QuantizedTensor& one) {
  const std::string origin =
      one.age == 0
          ? fmt::format("its largest magnitude is {:.3g}", one.amax)
          : fmt::format(
                "its scale uses a magnitude of {:.3g}, {} pass{} ago; the magnitude is now {:.3g}",
                one.scale_amax, one.age, one.age == 1 ? "" : "es", one.amax);
  if (one.share_underflow() > notable_share)
    return fmt::format("{:.1f} % of its values are 0 in {}: {}", 100 * one.share_underflow(),
                       one.format, origin);
  if (one.scale_amax >= too_large_for * one.amax)
    return fmt::format("most of {}'s range is unused: {}", one.format, origin);
  if (one.amax >= too_small_for * one.scale_amax)
    return fmt::format("{:.1f} % of its values are clipped in {}: {}", 100 * one.share_overflow(),
                       one.format, origin);
  return "";
}

}  // namespace

double QuantizedTensor::share_underflow() const { return share(underflows, numbers); }
double QuantizedTensor::share_overflow() const { return share(overflows, numbers); }

void QuantizationHealth::see(const QuantizeEvent& event, int64_t step, Findings& findings) {
  QuantizedTensor now = look_at(event);
  if (!std::isfinite(now.amax)) return;
  const bool comparable = now.amax > 0 && now.scale_amax > 0;
  if (const std::string text = comparable ? complaint(now) : ""; !text.empty())
    findings.add(Pitfall::fp8_amax, step, event.tensor, text,
                 {{"amax", now.amax},
                  {"scale", now.scale},
                  {"scale_amax", now.scale_amax},
                  {"age", now.age},
                  {"underflow_share", now.share_underflow()},
                  {"saturated_share", now.share_overflow()}});
  QuantizedTensor& sum = tensors_[event.tensor];
  now.uses += sum.uses;
  now.numbers += sum.numbers;
  now.underflows += sum.underflows;
  now.overflows += sum.overflows;
  sum = now;
}

std::string QuantizationHealth::table() const {
  if (tensors_.empty()) return "";
  std::vector<const std::pair<const std::string, QuantizedTensor>*> rows;
  for (const auto& row : tensors_) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    const auto loss = [](const QuantizedTensor& t) { return t.underflows + t.overflows; };
    return share(loss(a->second), a->second.numbers) > share(loss(b->second), b->second.numbers);
  });
  std::string text = fmt::format("{:<36} {:>6} {:>10} {:>10} {:>8} {:>8} {:>6}\n", "8-bit tensors",
                                 "", "amax", "scale", "under %", "over %", "age");
  for (size_t i = 0; i < rows.size() && i < rows_shown; ++i) {
    const auto& [name, t] = *rows[i];
    text +=
        fmt::format("{:<36} {:>6} {:>10.3g} {:>10.3g} {:>8.2f} {:>8.2f} {:>6}\n", name, t.format,
                    t.amax, t.scale, 100 * t.share_underflow(), 100 * t.share_overflow(), t.age);
  }
  if (rows.size() > rows_shown)
    text += fmt::format("{} more in numerics.json, none of them worse\n", rows.size() - rows_shown);
  return text + "(amax, scale and age of the last pass; age: passes since the scale's magnitude)\n";
}

nlohmann::ordered_json QuantizationHealth::to_json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [name, t] : tensors_)
    rows.push_back({{"tensor", name},
                    {"format", t.format},
                    {"passes", t.uses},
                    {"amax", t.amax},
                    {"scale", t.scale},
                    {"scale_amax", t.scale_amax},
                    {"age", t.age},
                    {"underflow_share", t.share_underflow()},
                    {"saturated_share", t.share_overflow()}});
  return rows;
}

}  // namespace booster::numerics
