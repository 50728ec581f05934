// What a config may contain: one visible tree of sections, from which the checks, the defaults, the
// help text and the JSON schema are derived.
#pragma once

#include "booster/config/options.h"

#include <string>
#include <vector>

namespace booster {

// One possible form of a section that is chosen by its "name".
struct NamedTable {
  std::string name;
  std::string description;
  OptionTable options;
};

// An object of the config: options, subsections and, if it is chosen by name, choices.
struct Section {
  std::string name;
  std::string description;
  OptionTable options = {};
  std::vector<NamedTable> choices = {};
  std::string default_choice = {};
  bool short_form = false;  // the name alone may replace the object
  std::vector<Section> sections = {};
};

// Everything that a config may contain, with the plugins and strategies registered so far.
Section config_layout();

// booster.libraries, whose entries are loaded before the layout is built.
Option libraries_option();

std::vector<std::string> names_of(const std::vector<NamedTable>& choices);

// Checks `value` (null: omitted) against the layout and returns every effective value. `file` is
// for errors, which give line, column and the key's path.
nlohmann::json checked_section(const Section& section, const JsonValue* value,
                               const std::string& file);

// The JSON schema (draft 2020-12) of a config.
nlohmann::json config_schema();
// All options, section by section, in columns.
std::string describe(const Section& section, const std::string& path = "");

}  // namespace booster
