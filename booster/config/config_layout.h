// What a config may hold: one visible tree of sections, from which come the checks, the defaults,
// the help text and the JSON schema.
#pragma once

#include "booster/config/options.h"

#include <string>
#include <vector>

namespace booster {

// One way to fill a section that is chosen by its "name".
struct NamedTable {
  std::string name;
  std::string description;
  OptionTable options;
};

// An object of the config: options, sections within it and, where it is chosen by name, choices.
struct Section {
  std::string name;
  std::string description;
  OptionTable options = {};
  std::vector<NamedTable> choices = {};
  std::string default_choice = {};
  bool short_form = false;  // the name alone may stand for the object
  std::vector<Section> sections = {};
};

// Everything that a config may hold, with the plugins and strategies registered so far.
Section config_layout();

// booster.libraries, whose entries are loaded before the layout is asked for.
Option libraries_option();

std::vector<std::string> names_of(const std::vector<NamedTable>& choices);

// Checks `value` (null: left out) against the layout; gives every value in force. `file` is for
// errors, which carry line, column and the key's path.
nlohmann::json checked_section(const Section& section, const JsonValue* value,
                               const std::string& file);

// The JSON schema (draft 2020-12) of a config.
nlohmann::json config_schema();
// All options, section by section, in columns.
std::string describe(const Section& section, const std::string& path = "");

}  // namespace booster
