#include "booster/config/options/option_tables.h"
#include "booster/config/options/options.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;

const Option& option_named(const OptionTable& options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const Option& option) { return option.name == name; });
  check(found != options.end(), "idle options: unknown option; got {}", name);
  return *found;
}

bool is_given(const std::string& path, const OptionTable& options, const Json& values) {
  const size_t dot = path.find('.');
  const Option& option = option_named(options, path.substr(0, dot));
  const Json& value = values.at(option.name);
  if (dot == path.npos) return value != option.default_value;
  return !value.is_null() && is_given(path.substr(dot + 1), option.members, value);
}

}  // namespace

std::vector<std::string> told_of_idle(const IdleTable& table, const OptionTable& options,
                                      const OptionValues& values) {
  std::vector<std::string> told, sentences;
  for (const IdleOptions& row : table) {
    std::vector<std::string> idle;
    for (const std::string& name : row.names)
      if (is_given(name, options, values.values()) &&
          std::find(told.begin(), told.end(), name) == told.end())
        idle.push_back(name);
    if (idle.empty() || !row.when(values)) continue;
    sentences.push_back(fmt::format("{} {} no effect {}", fmt::join(idle, ", "),
                                    idle.size() == 1 ? "has" : "have", row.why));
    told.insert(told.end(), idle.begin(), idle.end());
  }
  return sentences;
}

}  // namespace booster
