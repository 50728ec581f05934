// The JSON config: its layout, checking, overrides and typed access.
//
//   Config config = Config::from_args(argc, argv);   // --config FILE, --set key.path=value
//   double lr = config.get<double>("optimizer.lr");
//
// The library knows the sections booster, model, optimizer and lr_scheduler, and device. A program
// may declare more sections (ProgramConfig).
//
// All mistakes together throw one Error of kind usage (exit code 2) before anything is written. It
// has one line per mistake, in the order of the file. A line begins with file:line:column, or with
// the override that caused the mistake, and the key's path. Incompatible options are mistakes too:
// those that the model, the optimizer, the schedule or the strategy would refuse. Only an option of
// type data_path may name an environment variable, as a leading $NAME. A Config is a value; threads
// may share one for reading.
#pragma once

#include "booster/config/options/options.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedules/lr_scheduler.h"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

class Config;

// --- sections: objects with options, optionally chosen by name. Programs add their own:
//   const Section train = {.name = "train",
//                          .description = "length of the training",
//                          .options = {integer_option("epochs", 2, at_least(1), "passes")}};
//   Config config = Config::from_args(argc, argv, {.sections = {train}});

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
  // Defaults by path that replace the library's for this program: {"model.num_classes", 101}. In a
  // section with choices, a default applies to every choice that has the option. "model.name" is
  // the choice itself. Null means that the program computes the value and sets it with
  // Config::with.
  std::vector<std::pair<std::string, nlohmann::json>> defaults = {};
  // Unknown objects may appear next to the sections, because they belong to another program.
  bool open = false;
  // Reports combinations of legal values that the program refuses. `check` sees defaults in place
  // of invalid values.
  std::function<void(const Config&, Mistakes&)> check = {};
};

class Config {
 public:
  // Makes a config with all defaults.
  Config();
  static Config from_file(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides = {},
                          const ProgramConfig& program = {});
  // Reads a config from text. `name` identifies the text in errors.
  static Config from_text(std::string_view text, const std::string& name = "config",
                          const std::vector<std::string>& overrides = {},
                          const ProgramConfig& program = {});
  // Reads the arguments --config FILE, --set key.path=value (a JSON value, else a string; the last
  // one wins) and the program's own. Three arguments end the program. --help prints the usage.
  // --schema prints the JSON schema of its configs. --check checks the config (`booster config
  // check` runs a program with it). Also calls report_uncaught_errors().
  static Config from_args(int argc, const char* const* argv, const ProgramConfig& program = {});

  // Returns the value at a path such as "optimizer.lr"; throws if there is none or its type is not
  // T.
  template <class T>
  T get(const std::string& path) const {
    const auto [section, name] = split(path);
    return options(section).get<T>(name);
  }
  bool has(const std::string& path) const;
  // Returns true if the file or an override mentions this section.
  bool gives(const std::string& section) const;
  // Returns a copy with another value of an existing option, for values that a program learns
  // later.
  Config with(const std::string& path, nlohmann::json value) const;
  // Returns the options of a section: "optimizer", "booster.plugin", or "" for top-level options.
  OptionValues options(const std::string& section) const;

  // Returns every effective value, including defaults.
  const nlohmann::json& to_json() const { return values_; }
  // Returns the same without files and folders, whose paths may differ between machines.
  nlohmann::json without_paths() const;

 private:
  explicit Config(nlohmann::json values) : values_(std::move(values)) {}
  static Config checked(JsonValue root, const std::string& file,
                        const std::vector<std::string>& overrides, const ProgramConfig& program);
  static std::pair<std::string, std::string> split(const std::string& path);
  nlohmann::json values_;
  std::vector<std::string> given_;  // keys at the top of the document
  std::vector<std::string> paths_;  // JSON pointers of the values that are files or folders
};

// Makes the config's plugin and strategy, and its model and optimizer if it describes a model.
// Throws the errors that a program would get, also for an incompatible pair. Returns the strategy's
// notes.
std::vector<std::string> check_objects(const Config& config);

// Makes an Error that escapes from main end the program without abort(). The program prints "error:
// TEXT" to stderr and exits with the error's exit code. With several ranks the text names the rank:
// "error: rank 1 (tensor 1): TEXT". Also opens /dev/null for missing standard files.
// Config::from_args calls it; calling it again changes nothing.
void report_uncaught_errors();

// --- the objects that a config describes. The functions throw the errors of the objects' own
// constructors; thread-safe.

// Returns the device on which the config's model is trained. "cuda" is the GPU with this rank's
// number on its machine.
Device device_of(const Config& config);
// Makes the model on that device, loads its start weights and freezes what the config names. Calls
// `report` for each tensor of the weights' file that did not match exactly.
Model make_model(const Config& config, const std::function<void(const std::string&)>& report = {});
Optimizer make_optimizer(const Config& config, const Model& model);
// Makes the scheduler. `training_steps`, the number of optimizer steps of the whole run, replaces a
// total_steps of 0.
LRScheduler make_lr_scheduler(const Config& config, const Optimizer& optimizer,
                              int64_t training_steps);

}  // namespace booster
