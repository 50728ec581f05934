// Sections of a config: objects with options, optionally chosen by name. The library builds its own
// part of a config from them (config_layout.h), and programs add their own:
//   const Section train = {.name = "train",
//                          .description = "length of the training",
//                          .options = {integer_option("epochs", 2, at_least(1), "passes")}};
//   Config config = Config::from_args(argc, argv, {.sections = {train}});
// Plain values.
#pragma once

#include "booster/config/options/options.h"

#include <functional>
#include <string>
#include <vector>

namespace booster {

class Config;
class Mistakes;

// One way to fill a section that is chosen by its "name".
struct NamedTable {
  std::string name;
  std::string description;
  OptionTable options;
};

// An object of the config: options, nested sections and, if it is chosen by name, its choices.
struct Section {
  std::string name;
  std::string description;
  OptionTable options = {};
  std::vector<NamedTable> choices = {};
  std::string default_choice = {};
  bool short_form = false;  // the name alone may replace the object
  std::vector<Section> sections = {};
  bool open = false;  // objects of other names may appear here; they are ignored
};

// A command-line option that sets one config option: --profile 3:20 for train.profile.
struct ConfigArgument {
  std::string name;  // "--profile"
  std::string path;  // of the option: "train.profile"
  std::string form;  // form of the value in the usage: "FIRST:LAST"
  std::string description;
  std::string alone = {};  // value if the name stands alone; empty: it needs a value
  bool several = false;    // takes all words up to the next option as a list
};

// What a program adds to the library's config.
struct ProgramConfig {
  std::vector<Section> sections = {};
  std::vector<ConfigArgument> arguments = {};
  // Defaults that replace the library's own for this program, by path: {"model.num_classes", 101}.
  // In a section with choices a default applies to every choice that has the option; "model.name"
  // is the choice itself. Null: the program computes the value and sets it with Config::with.
  std::vector<std::pair<std::string, nlohmann::json>> defaults = {};
  // Unknown objects may appear next to the sections: they belong to another program.
  bool open = false;
  // Reports combinations that the program refuses although each value is legal. Invalid values
  // appear to `check` as their defaults.
  std::function<void(const Config&, Mistakes&)> check = {};
};

}  // namespace booster
