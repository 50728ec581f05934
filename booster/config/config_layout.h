// The layout of a config: one visible tree of sections. The checks, the defaults, the help text and
// the JSON schema are derived from it.
#pragma once

#include "booster/config/config.h"
#include "platform/json/json_document.h"

#include <string>
#include <vector>

namespace booster {

// Returns everything that a config of this program may hold, with the plugins, strategies and
// models registered so far. Throws for a default of an option that does not exist.
Section config_layout(const ProgramConfig& program = {});

// Returns the option booster.libraries, whose entries are loaded before the layout is built.
Option libraries_option();

std::vector<std::string> names_of(const std::vector<NamedTable>& choices);

// Returns the JSON pointers of all options that are files or folders.
std::vector<std::string> path_pointers(const Section& layout);

class Mistakes;

// Checks `value` (null: omitted) against the layout. Returns every effective value. Adds wrong
// values to `mistakes` and replaces them by their defaults. The top level may hold "$schema", a
// string for editors.
nlohmann::json checked_section(const Section& section, const JsonValue* value, Mistakes& mistakes);
// Does the same, but throws all mistakes as one Error. `file` names the document in their
// positions.
nlohmann::json checked_section(const Section& section, const JsonValue* value,
                               const std::string& file);

// Returns the JSON schema (draft 2020-12) of a config.
nlohmann::json config_schema(const ProgramConfig& program = {});
// Returns a table of all options, section by section.
std::string describe(const Section& section, const std::string& path = "");

}  // namespace booster
