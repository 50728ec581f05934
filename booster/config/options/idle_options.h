// Options that are accepted but have no effect next to certain others, because the original systems
// accept them too: the user is told once, when the strategy is made or the config is checked. A
// combination that the original refuses is an error of the strategy itself instead.
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

// The commonest condition: an option has this very value.
template <class T>
std::function<bool(const OptionValues&)> option_is(std::string name, T value) {
  return [=](const OptionValues& values) { return values.get<T>(name) == value; };
}

// A sentence for each row that holds, about those of its options whose values are not the defaults:
// "master_grad, excluded_layers have no effect at level O1". Each option is named once.
std::vector<std::string> told_of_idle(const IdleTable& table, const OptionTable& options,
                                      const OptionValues& values);

}  // namespace booster
