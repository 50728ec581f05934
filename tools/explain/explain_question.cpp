#include "tools/explain/explain_question.h"

#include "platform/error.h"

namespace booster {

DeviceType device_of(const Question& question) {
  const std::string& device = question.device;
  check(device.empty() || device == "cuda" || device == "cpu", "device: unknown; got {}{}", device,
        legal_names(device, {"cuda", "cpu"}));
  return device == "cpu" ? DeviceType::cpu : DeviceType::cuda;
}

std::string setting(const Question& question, const std::string& name,
                    const std::string& standard) {
  const auto found = question.settings.find(name);
  return found == question.settings.end() ? standard : found->second;
}

std::vector<std::string> names_in_setting(const Question& question, const std::string& name) {
  std::vector<std::string> names(1);
  for (const char letter : setting(question, name)) {
    if (letter == ',')
      names.emplace_back();
    else if (std::string_view("[]\"' ").find(letter) == std::string_view::npos)
      names.back() += letter;
  }
  std::erase(names, "");
  return names;
}

bool flag_setting(const Question& question, const std::string& name, bool standard) {
  const std::string value = setting(question, name, standard ? "true" : "false");
  check(value == "true" || value == "false", "{}: not a truth value; got {}, want true or false",
        name, value);
  return value == "true";
}

void check_settings(const Question& question, const std::vector<std::string>& legal) {
  for (const auto& [name, value] : question.settings)
    check(has(legal, name), "--set: {} has no such setting; got {}{}", question.strategy, name,
          legal_names(name, legal));
}

void check_no_level(const Question& question) {
  check(question.level.empty(), "level: {} has no levels; got {}", question.strategy,
        question.level);
}

}  // namespace booster
