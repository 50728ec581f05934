#include "tools/report/precision_events.h"

#include <fmt/format.h>

#include <optional>

namespace booster::report {

namespace {

using Json = nlohmann::json;

std::optional<double> number(const Json& line, const char* key) {
  const Json& value = part_of(line, {key});
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

void add(std::string& text, const std::string& more) { text += (text.empty() ? "" : "; ") + more; }

}  // namespace

std::vector<PrecisionEvent> precision_events(const RunFolder& run) {
  std::vector<PrecisionEvent> events;
  double step_before = 0, skipped_before = 0;
  std::optional<double> scale_before;
  bool was_finite = true;
  for (const Json& line : run.metrics.lines) {
    const auto step = number(line, "step");
    if (!step || !line.contains("loss")) continue;
    std::string what;
    const double skipped = number(line, "skipped").value_or(skipped_before);
    if (skipped > skipped_before)
      add(what, fmt::format("{:.0f} step{} skipped", skipped - skipped_before,
                            skipped - skipped_before == 1 ? "" : "s"));
    const auto scale = number(line, "loss_scale");
    if (scale && scale_before && *scale != *scale_before)
      add(what, fmt::format("loss scale {:g} to {:g}", *scale_before, *scale));
    const bool finite = !line["loss"].is_null();
    if (!finite && was_finite) add(what, "the loss is not finite");
    if (finite && !was_finite) add(what, "the loss is finite again");
    const Json& refusal = part_of(line, {"refusal"});
    if (refusal.is_string()) add(what, refusal.get<std::string>());
    if (!what.empty()) events.push_back({step_before, *step, what});
    step_before = *step;
    skipped_before = skipped;
    if (scale) scale_before = scale;
    was_finite = finite;
  }
  return events;
}

}  // namespace booster::report
