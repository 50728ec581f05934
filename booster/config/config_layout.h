// What a config may contain: one visible tree of sections, from which the checks, the defaults, the
// help text and the JSON schema are derived.
#pragma once

#include "booster/config/options/section.h"

#include <string>
#include <vector>

namespace booster {

// Everything that a config of this program may hold, with the plugins and strategies registered so
// far. Error for a default of an option that does not exist.
Section config_layout(const ProgramConfig& program = {});

// booster.libraries, whose entries are loaded before the layout is built.
Option libraries_option();

std::vector<std::string> names_of(const std::vector<NamedTable>& choices);

// JSON pointers of all options that are files or folders.
std::vector<std::string> path_pointers(const Section& layout);

class Mistakes;

// Checks `value` (null: left out) against the layout; gives every value in force, with defaults in
// the place of wrong ones, which `mistakes` is told. At the top "$schema" may stand, a string for
// editors.
nlohmann::json checked_section(const Section& section, const JsonValue* value, Mistakes& mistakes);
// The same; all mistakes are one Error. `file` is for their places.
nlohmann::json checked_section(const Section& section, const JsonValue* value,
                               const std::string& file);

// The JSON schema (draft 2020-12) of a config.
nlohmann::json config_schema(const ProgramConfig& program = {});
// All options, section by section, in columns.
std::string describe(const Section& section, const std::string& path = "");

}  // namespace booster
