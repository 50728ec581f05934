#include "booster/config/config_layout.h"
#include "booster/config/options/option_tables.h"

#include "booster/config/checks/other_names.h"
#include "booster/config/config.h"
#include "platform/json/json_document.h"

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

template <class Rows>
auto find_row(Rows& rows, std::string_view name) {
  return std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
}

void add_names(const OptionTable& options, Names& names) {
  for (const auto& option : options) names.push_back(option.name);
}

// Returns every key that a section may hold with any of its choices.
Names keys_of(const Section& section) {
  Names names;
  add_names(section.options, names);
  for (const auto& choice : section.choices) add_names(choice.options, names);
  for (const auto& inner : section.sections) names.push_back(inner.name);
  return names;
}

// Returns the path of this key in another section, "optimizer.lr", or "".
std::string path_of_key(const Section& section, const std::string& path, std::string_view key) {
  const Names keys = keys_of(section);
  if (std::find(keys.begin(), keys.end(), key) != keys.end()) return join_key(path, key);
  for (const auto& inner : section.sections) {
    const std::string found = path_of_key(inner, join_key(path, inner.name), key);
    if (!found.empty()) return found;
  }
  return "";
}

// Checks one object of the config against its layout and fills in defaults.
class SectionCheck {
 public:
  SectionCheck(const Section& section, const std::string& path, const Section& root,
               Mistakes& mistakes)
      : section_(section),
        path_(path),
        root_(root),
        mistakes_(mistakes),
        options_(section.options) {}

  // `value` is null if the config omits the section.
  Json run(const JsonValue* value) {
    if (value && value->kind != JsonKind::object && !is_short_form(*value)) {
      const char* want = section_.short_form ? "a name or an object" : "an object";
      mistakes_.add(*value, path_,
                    fmt::format("wrong type; got {}, want {}", show_value(*value), want));
      value = nullptr;
    }
    Json values = choose(value);
    values.update(default_values(options_));
    for (const auto& section : section_.sections) {
      const JsonValue* inner = value ? value->find(section.name) : nullptr;
      SectionCheck check(section, join_key(path_, section.name), root_, mistakes_);
      values[section.name] = check.run(inner);
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

  // Adds the options of the choice that "name" selects. If there is no such choice, uses the most
  // similar one, so that the other keys are checked too.
  Json choose(const JsonValue* value) {
    if (section_.choices.empty()) return Json::object();
    const JsonValue* named = value && value->kind == JsonKind::object ? value->find("name") : value;
    std::string name = section_.default_choice;
    if (named) {
      const Names names = names_of(section_.choices);
      const Option option = choice_option("name", name, names, "");
      const Json checked = checked_value(option, *named, path_, mistakes_);
      const bool is_legal = named->kind == JsonKind::string && checked == named->scalar;
      name = is_legal ? checked.get<std::string>() : meant_choice(*named, names);
      if (name.empty()) return {{"name", section_.default_choice}};
    }
    const auto choice = find_row(section_.choices, name);
    options_.insert(options_.end(), choice->options.begin(), choice->options.end());
    return {{"name", name}};
  }

  std::string meant_choice(const JsonValue& named, const Names& names) {
    const bool is_name = named.kind == JsonKind::string;
    const std::string name = is_name ? our_name(named.scalar.get<std::string>(), names) : "";
    knows_keys_ = !name.empty();
    return name;
  }

  void check_member(const JsonValue& member, Json& values) {
    if (path_.empty() && member.key == "$schema") {
      checked_value(text_option("$schema", "", ""), member, path_, mistakes_);
      return;
    }
    const bool is_name = !section_.choices.empty() && member.key == "name";
    if (is_name || find_row(section_.sections, member.key) != section_.sections.end()) return;
    const auto option = find_row(options_, member.key);
    if (option == options_.end()) {
      if (knows_keys_ && !is_anothers(member)) unknown_key(member, values);
      return;
    }
    values[member.key] = checked_value(*option, member, path_, mistakes_);
  }

  Names legal_keys() const {
    Names legal;
    if (!section_.choices.empty()) legal.push_back("name");
    add_names(options_, legal);
    for (const auto& section : section_.sections) legal.push_back(section.name);
    return legal;
  }

  // Returns true for an object that belongs to another program. A name similar to one of ours
  // counts as a mistake instead.
  bool is_anothers(const JsonValue& member) const {
    return section_.open && member.kind == JsonKind::object &&
           nearest_name(member.key, legal_keys()).empty();
  }

  // Suggests a key in another section if no key of this section is similar.
  std::string suggestion_elsewhere(const std::string& key) const {
    if (!our_name(key, legal_keys()).empty()) return "";
    Names meant = meant_by(key);
    meant.insert(meant.begin(), key);
    for (const std::string& name : meant) {
      const std::string path = path_of_key(root_, "", name);
      const bool is_here = path.rfind('.') == path_.size() && path.starts_with(path_);
      const bool is_top = path.find('.') == path.npos;
      if (!path.empty() && !is_here)
        return fmt::format(" (did you mean {}{}?)", path, is_top ? " at the top" : "");
    }
    return "";
  }

  void unknown_key(const JsonValue& member, const Json& values) {
    const std::string of =
        values.contains("name") ? " of " + values["name"].get<std::string>() : "";
    mistakes_.add_key(member, join_key(path_, member.key),
                      fmt::format("unknown key{}; got {}{}{}", of, show_text(member.key),
                                  legal_words(member.key, legal_keys()),
                                  suggestion_elsewhere(member.key)));
  }

  const Section& section_;
  std::string path_;
  const Section& root_;
  Mistakes& mistakes_;
  OptionTable options_;
  bool knows_keys_ = true;  // false: the choice is unknown, so any key may be legal
};

}  // namespace

Json checked_section(const Section& section, const JsonValue* value, Mistakes& mistakes) {
  return SectionCheck(section, "", section, mistakes).run(value);
}

Json checked_section(const Section& section, const JsonValue* value, const std::string& file) {
  Mistakes mistakes(file, value);
  Json values = checked_section(section, value, mistakes);
  mistakes.raise();
  return values;
}

}  // namespace booster
