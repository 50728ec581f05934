// Parses the parts of a question to `explain`: the device of the tensors, and a strategy's
// settings. Errors name the setting and the nearest legal value.
#pragma once

#include "core/tensor/tensor.h"
#include "tools/explain/explain.h"

#include <algorithm>

namespace booster {

inline bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the question's device; "cuda" unless given.
DeviceType device_of(const Question& question);
// Returns a setting; `standard` if it is not given.
std::string setting(const Question& question, const std::string& name,
                    const std::string& standard = "");
// Returns a setting of the form "a,b" or, as in a config, ["a", "b"].
std::vector<std::string> names_in_setting(const Question& question, const std::string& name);
// Returns a setting that is "true" or "false"; `standard` if it is not given.
bool flag_setting(const Question& question, const std::string& name, bool standard);

void check_settings(const Question& question, const std::vector<std::string>& legal);
void check_no_level(const Question& question);

}  // namespace booster
