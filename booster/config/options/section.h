// Sections of a config: an object with options, chosen by name or not. Of these the library builds
// its own part of a config (config_layout.h), and a program the sections that it adds to it:
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

// An object of the config: options, sections within it and, where it is chosen by name, choices.
struct Section {
  std::string name;
  std::string description;
  OptionTable options = {};
  std::vector<NamedTable> choices = {};
  std::string default_choice = {};
  bool short_form = false;  // the name alone may stand for the object
  std::vector<Section> sections = {};
  bool open = false;  // objects of other names may stand here, and are left alone
};

// A word of the command line that sets one option: --profile 3:20 for train.profile.
struct ConfigArgument {
  std::string name;  // "--profile"
  std::string path;  // of the option: "train.profile"
  std::string form;  // of the value, for the usage: "FIRST:LAST"
  std::string description;
  std::string alone = {};  // what the name without a value stands for; empty: it needs one
  bool several = false;    // all words up to the next option are values, of a list
};

// What a program adds to the config that the library knows.
struct ProgramConfig {
  std::vector<Section> sections = {};
  std::vector<ConfigArgument> arguments = {};
  // Defaults of the library's options that suit this program better, by path; for a section with
  // choices of every choice that has the option: {"model.num_classes", 101}; "model.name" is the
  // choice. Null: the program finds out, and fills it in by Config::with.
  std::vector<std::pair<std::string, nlohmann::json>> defaults = {};
  // Objects that neither knows may stand beside the sections: another program's.
  bool open = false;
  // Tells what the program would refuse although each value is legal. Values that are mistakes
  // themselves are the defaults here.
  std::function<void(const Config&, Mistakes&)> check = {};
};

}  // namespace booster
