#include "booster/config/config_agreement.h"

#include "parallel/groups/group.h"
#include "platform/json/json_text.h"

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;

// Returns "/optimizer/lr" as "optimizer.lr"
std::string dotted(std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer.empty() ? pointer : pointer.substr(1);
}

std::string shown(const Json& values, const std::string& key) {
  return values.contains(key) ? values[key].dump() : "nothing";
}

// Returns the first key where two flat objects differ.
std::string first_difference(const Json& a, const Json& b) {
  for (const Json* values : {&a, &b})
    for (const auto& [key, value] : values->items())
      if (shown(a, key) != shown(b, key)) return key;
  return "";
}

}  // namespace

void check_agreement(const Config& config, const Group& group) {
  if (group.size() == 1) return;
  const auto texts = gather_text(config.without_paths().flatten().dump(), group);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto first = json_from<Json>(texts[0]), other = json_from<Json>(texts[rank]);
    const std::string key = first_difference(first, other);
    fail("config: {} differs between ranks; rank {} has {}, rank 0 has {}", dotted(key), rank,
         shown(other, key), shown(first, key));
  }
}

}  // namespace booster
