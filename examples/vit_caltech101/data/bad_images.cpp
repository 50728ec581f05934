#include "examples/vit_caltech101/data/bad_images.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace example {

using namespace booster;

std::vector<std::string> on_all_ranks(const std::vector<BadImage>& mine, const World& world) {
  std::vector<std::string> own;
  for (const BadImage& bad : mine) own.push_back(bad.reason);
  std::set<std::string> all;
  for (const auto& text : gather_text(nlohmann::json(own).dump(), world.group())) {
    const auto reasons = report::json_of(text).get<std::vector<std::string>>();
    all.insert(reasons.begin(), reasons.end());
  }
  return {all.begin(), all.end()};
}

std::string describe_bad_images(const std::vector<std::string>& reasons) {
  constexpr size_t most = 10;
  if (reasons.empty()) return "";
  std::string text =
      fmt::format("{} bad image{} skipped:", reasons.size(), reasons.size() == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(reasons.size(), most); ++i) text += "\n  " + reasons[i];
  if (reasons.size() > most)
    text += fmt::format("\n  and {} more: run.json lists all", reasons.size() - most);
  return text;
}

}  // namespace example
