#include "booster/numerics/findings.h"

#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::numerics {

const char* name_of(Severity severity) {
  static constexpr const char* names[] = {"info", "warning", "error"};
  return names[static_cast<int>(severity)];
}

const PitfallEntry& entry_of(Pitfall pitfall) {
  check(pitfall != Pitfall::none, "pitfall: `none` has no entry in the catalogue");
  return pitfalls()[static_cast<size_t>(number_of(pitfall) - 1)];
}

nlohmann::ordered_json Finding::to_json() const {
  nlohmann::ordered_json json = {{"rule", number_of(pitfall)}, {"severity", name_of(severity)},
                                 {"step", step},     {"object", object},
                                 {"dtype", dtype},   {"text", text},
                                 {"remedy", remedy}, {"numbers", numbers},
                                 {"count", count}};
  if (!ranks.empty()) json["ranks"] = ranks;
  if (elsewhere) json["elsewhere"] = true;
  return json;
}

Finding Finding::from_json(const nlohmann::ordered_json& json) {
  Finding finding = {.pitfall = static_cast<Pitfall>(json.at("rule").get<int>()),
                     .severity = Severity::info,
                     .step = json.at("step"),
                     .object = json.at("object"),
                     .dtype = json.at("dtype"),
                     .text = json.at("text"),
                     .remedy = json.at("remedy"),
                     .numbers = json.at("numbers"),
                     .count = json.at("count"),
                     .elsewhere = json.contains("elsewhere")};
  for (const Severity severity : {Severity::warning, Severity::error})
    if (json.at("severity") == name_of(severity)) finding.severity = severity;
  return finding;
}

std::string Finding::to_string() const {
  std::string line = fmt::format("{}, step {}", name_of(severity), step);
  if (!ranks.empty())
    line += fmt::format(", rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  if (pitfall != Pitfall::none) line += fmt::format(", pitfall {}", number_of(pitfall));
  line += object.empty() ? ": " : fmt::format(": {}: ", object);
  line += text;
  if (count > 1) line += fmt::format(" ({} times)", count);
  return remedy.empty() ? line : line + "; " + remedy;
}

void Findings::add(Pitfall pitfall, int64_t step, std::string object, std::string text,
                   nlohmann::ordered_json numbers) {
  const PitfallEntry& known = entry_of(pitfall);
  add({.pitfall = pitfall,
       .severity = known.severity,
       .step = step,
       .object = std::move(object),
       .dtype = "",
       .text = std::move(text),
       .remedy = known.remedy,
       .numbers = std::move(numbers),
       .count = 1});
}

Finding* Findings::find_like(const Finding& finding) {
  const auto same = std::find_if(list_.begin(), list_.end(), [&](const Finding& other) {
    return other.pitfall == finding.pitfall && other.object == finding.object;
  });
  return same == list_.end() ? nullptr : &*same;
}

void Findings::add(Finding finding) {
  if (Finding* same = find_like(finding))
    ++same->count;
  else
    list_.push_back(std::move(finding));
}

Findings Findings::merged(const std::vector<Findings>& by_rank) {
  Findings all;
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    for (const Finding& finding : by_rank[rank].list_) {
      Finding* same = all.find_like(finding);
      if (!same) same = &all.list_.emplace_back(finding);
      same->ranks.push_back(static_cast<int>(rank));
    }
  const std::vector<Finding> seen = all.list_;
  std::erase_if(all.list_, [&](const Finding& vague) {
    const auto explains = [&](const Finding& cause) {
      return !cause.elsewhere && cause.step == vague.step && cause.ranks != vague.ranks;
    };
    return vague.elsewhere && std::any_of(seen.begin(), seen.end(), explains);
  });
  for (Finding& finding : all.list_)
    if (finding.ranks.size() == by_rank.size()) finding.ranks.clear();
  return all;
}

bool Findings::has(Pitfall pitfall) const {
  return std::any_of(list_.begin(), list_.end(),
                     [&](const auto& f) { return f.pitfall == pitfall; });
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
