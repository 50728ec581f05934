#include "booster/numerics/findings.h"

#include "kernels/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::numerics {

const char* name_of(Severity severity) {
  static constexpr const char* names[] = {"info", "warning", "error"};
  return names[static_cast<int>(severity)];
}

const Pitfall& pitfall(int rule) {
  check(rule >= 1 && rule <= static_cast<int>(pitfalls().size()),
        "pitfall: no such rule; got {}, want 1 to {}", rule, pitfalls().size());
  return pitfalls()[static_cast<size_t>(rule - 1)];
}

nlohmann::ordered_json Finding::to_json() const {
  return {{"rule", rule},     {"severity", name_of(severity)},
          {"step", step},     {"object", object},
          {"dtype", dtype},   {"text", text},
          {"remedy", remedy}, {"numbers", numbers},
          {"count", count}};
}

std::string Finding::to_string() const {
  std::string line = fmt::format("{}, step {}", name_of(severity), step);
  if (rule > 0) line += fmt::format(", pitfall {}", rule);
  line += object.empty() ? ": " : fmt::format(": {}: ", object);
  line += text;
  if (count > 1) line += fmt::format(" ({} times)", count);
  return remedy.empty() ? line : line + "; " + remedy;
}

void Findings::add(int rule, int64_t step, std::string object, std::string text,
                   nlohmann::ordered_json numbers) {
  const Pitfall& known = pitfall(rule);
  add({.rule = rule,
       .severity = known.severity,
       .step = step,
       .object = std::move(object),
       .dtype = "",
       .text = std::move(text),
       .remedy = known.remedy,
       .numbers = std::move(numbers),
       .count = 1});
}

void Findings::add(Finding finding) {
  const auto same = std::find_if(list_.begin(), list_.end(), [&](const Finding& other) {
    return other.rule == finding.rule && other.object == finding.object;
  });
  if (same == list_.end())
    list_.push_back(std::move(finding));
  else
    ++same->count;
}

bool Findings::has(int rule) const {
  return std::any_of(list_.begin(), list_.end(), [&](const auto& f) { return f.rule == rule; });
}

bool Findings::has(Severity severity) const {
  return std::any_of(list_.begin(), list_.end(),
                     [&](const auto& f) { return f.severity == severity; });
}

std::vector<Finding> Findings::sorted() const {
  std::vector<Finding> sorted = list_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return a.severity != b.severity ? a.severity > b.severity : a.step < b.step;
  });
  return sorted;
}

}  // namespace booster::numerics
