// Options that are accepted but have no effect in combination with others, because the original
// systems accept them too. The user sees one note when the strategy is made or the config is
// checked. If the original refuses a combination, the strategy throws instead.
//
// A strategy declares a visible table with one row per reason; tables are plain values:
//   IdleTable idle = {{{"seed"},
//                      [](auto& values) { return values.get<std::string>("update") == "nearest"; },
//                      "with update = nearest"}};
#pragma once

#include "booster/config/options/options.h"

#include <functional>
#include <string>
#include <vector>

namespace booster {

struct IdleOptions {
  std::vector<std::string> names;  // "amp_configs.decr_ratio" is a member of an object
  std::function<bool(const OptionValues&)> when;
  std::string why;  // ends the sentence: "at level O1"
};
using IdleTable = std::vector<IdleOptions>;

// Returns the most common condition: an option has this value.
template <class T>
std::function<bool(const OptionValues&)> option_is(std::string name, T value) {
  return [=](const OptionValues& values) { return values.get<T>(name) == value; };
}

// Returns a sentence for each row that applies. It names the row's options that differ from their
// defaults: "master_grad, excluded_layers have no effect at level O1". Names each option once.
std::vector<std::string> told_of_idle(const IdleTable& table, const OptionTable& options,
                                      const OptionValues& values);

}  // namespace booster
