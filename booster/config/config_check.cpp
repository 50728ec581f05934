#include "booster/config/config_layout.h"

#include "booster/config/json_document.h"

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;

template <class Rows>
auto find_row(Rows& rows, std::string_view name) {
  return std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
}

// Checks one object of the config against its layout and fills in defaults.
class SectionCheck {
 public:
  SectionCheck(const Section& section, const std::string& file, const std::string& path)
      : section_(section), file_(file), path_(path), options_(section.options) {}

  // `value` is null if the config omits the section.
  Json run(const JsonValue* value) {
    if (value && value->kind != JsonKind::object && !is_short_form(*value)) {
      const char* want = section_.short_form ? "a name or an object" : "an object";
      fail("{}: {}; got {}, want {}", place_of(file_, *value), label("wrong type"),
           show_value(*value), want);
    }
    Json values = choose(value);
    values.update(default_values(options_));
    for (const auto& section : section_.sections) {
      const JsonValue* inner = value ? value->find(section.name) : nullptr;
      values[section.name] = SectionCheck(section, file_, join_key(path_, section.name)).run(inner);
    }
    if (value) {
      for (const auto& member : value->items) check_member(member, values);
    }
    return values;
  }

 private:
  bool is_short_form(const JsonValue& value) const {
    return section_.short_form && value.kind == JsonKind::string;
  }
  std::string label(const char* problem) const {
    return path_.empty() ? std::string("the config: ") + problem : path_ + ": " + problem;
  }

  // Adds the options of the choice selected by "name".
  Json choose(const JsonValue* value) {
    if (section_.choices.empty()) return Json::object();
    const JsonValue* named = value && value->kind == JsonKind::object ? value->find("name") : value;
    std::string name = section_.default_choice;
    if (named) {
      const auto names = names_of(section_.choices);
      name = checked_value(choice_option("name", name, names, ""), *named, file_, path_);
    }
    const auto choice = find_row(section_.choices, name);
    options_.insert(options_.end(), choice->options.begin(), choice->options.end());
    return {{"name", name}};
  }

  void check_member(const JsonValue& member, Json& values) const {
    if (path_.empty() && member.key == "$schema") {
      checked_value(text_option("$schema", "", ""), member, file_, path_);
      return;
    }
    const bool is_name = !section_.choices.empty() && member.key == "name";
    if (is_name || find_row(section_.sections, member.key) != section_.sections.end()) return;
    const auto option = find_row(options_, member.key);
    if (option == options_.end()) {
      if (is_anothers(member)) return;
      unknown_key(member, values);
    }
    values[member.key] = checked_value(*option, member, file_, path_);
  }

  std::vector<std::string> legal_keys() const {
    std::vector<std::string> legal;
    if (!section_.choices.empty()) legal.push_back("name");
    for (const auto& option : options_) legal.push_back(option.name);
    for (const auto& section : section_.sections) legal.push_back(section.name);
    return legal;
  }

  // Left to whom it belongs to. A name that is nearly one of ours is a mistake rather.
  bool is_anothers(const JsonValue& member) const {
    return section_.open && member.kind == JsonKind::object &&
           nearest_name(member.key, legal_keys()).empty();
  }

  [[noreturn]] void unknown_key(const JsonValue& member, const Json& values) const {
    const std::string of =
        values.contains("name") ? " of " + values["name"].get<std::string>() : "";
    fail("{}: {}: unknown key{}; got {}{}", place_of_key(file_, member),
         join_key(path_, member.key), of, show_text(member.key),
         legal_names(member.key, legal_keys()));
  }

  const Section& section_;
  const std::string& file_;
  std::string path_;
  OptionTable options_;
};

}  // namespace

Json checked_section(const Section& section, const JsonValue* value, const std::string& file) {
  return SectionCheck(section, file, "").run(value);
}

}  // namespace booster
