// What the library reads from tables of options: checked values, defaults, schema and text.
// Thread-safe.
#pragma once

#include "booster/config/options/options.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace booster {

// Returns the checked value of an option, with $NAME expanded. If the value is wrong, adds it to
// `mistakes` and returns the default. `path` is the path of the option's section.
nlohmann::json checked_value(const Option& option, const JsonValue& value, const std::string& path,
                             Mistakes& mistakes);
nlohmann::json default_values(const OptionTable& table);
// Returns the JSON schema of one option's values.
nlohmann::json schema_of(const Option& option);
// Returns a line per option, in columns: "  lr   0.01   a number >= 0   learning rate".
std::string describe(const OptionTable& table);

// Returns a sentence for each row that applies. It names the row's options that differ from their
// defaults: "master_grad, excluded_layers have no effect at level O1". Names each option once.
std::vector<std::string> told_of_idle(const IdleTable& table, const OptionTable& options,
                                      const OptionValues& values);

}  // namespace booster
