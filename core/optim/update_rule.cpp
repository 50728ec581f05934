#include "core/optim/update_rule.h"

#include "platform/error.h"

#include <cmath>

namespace booster {
namespace {

std::vector<std::string> names_of(const std::vector<OptionRange>& ranges) {
  std::vector<std::string> names;
  for (const auto& range : ranges) names.push_back(range.name);
  return names;
}

std::string range_text(const OptionRange& range) {
  if (range.high == std::numeric_limits<double>::max())
    return fmt::format("a finite number, at least {}", range.low);
  return fmt::format("a number from {} to {}{}", range.low, range.below_high ? "below " : "",
                     range.high);
}

void check_range(const UpdateRule& rule, const OptionRange& range, double value) {
  const bool too_high = range.below_high ? value >= range.high : value > range.high;
  check(std::isfinite(value) && value >= range.low && !too_high,
        "{}: {} is out of range; got {}, want {}", rule.name(), range.name, value,
        range_text(range));
}

}  // namespace

std::vector<RuleState> UpdateRule::states(const OptimizerOptions& options,
                                          const Shape& parameter) const {
  std::vector<RuleState> all;
  for (const std::string& name : state_names(options)) all.push_back({name, parameter});
  return all;
}

void check_options(const UpdateRule& rule, const OptimizerOptions& options) {
  const auto ranges = rule.options();
  for (const auto& range : ranges) {
    const auto found = options.find(range.name);
    check(found != options.end(), "{}: option {} is missing", rule.name(), range.name);
    check_range(rule, range, found->second);
  }
  for (const auto& [name, value] : options) {
    bool known = false;
    for (const auto& range : ranges) known |= name == range.name;
    check(known, "{}: unknown option; got {}{}", rule.name(), name,
          legal_names(name, names_of(ranges)));
  }
  rule.check_together(options);
}

OptimizerOptions merged(const UpdateRule& rule, OptimizerOptions defaults,
                        const OptimizerOptions& changes) {
  for (const auto& [name, value] : changes) defaults[name] = value;
  check_options(rule, defaults);
  return defaults;
}

}  // namespace booster
