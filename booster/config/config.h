// The JSON config: its layout, checking, overrides and typed access.
//
//   Config config = Config::from_args(argc, argv);   // --config FILE, --set key.path=value
//   double lr = config.get<double>("optimizer.lr");
//
// The library knows the sections booster, model, optimizer and lr_scheduler, and device. A program
// that needs more declares its own sections (ProgramConfig in section.h).
//
// All mistakes together are one Error of kind usage (exit code 2); nothing is written. It has one
// line per mistake, in the order of the file. A line begins with file:line:column, or with the
// override that caused it, and the key's path. Options that do not fit together are mistakes too:
// whatever the model, the optimizer, the schedule or the strategy would refuse. Only an option of
// type data_path may name an environment variable, as a leading $NAME. A Config is a value; threads
// may share one for reading.
#pragma once

#include "booster/config/options/section.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

class Config {
 public:
  // A config with all defaults.
  Config();
  static Config from_file(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides = {},
                          const ProgramConfig& program = {});
  // `name` identifies the text in errors.
  static Config from_text(std::string_view text, const std::string& name = "config",
                          const std::vector<std::string>& overrides = {},
                          const ProgramConfig& program = {});
  // Accepts --config FILE, --set key.path=value (a JSON value, else a string; the last one wins)
  // and the program's own arguments. Three arguments end the program: --help prints the usage,
  // --schema prints the JSON schema of its configs, and --check checks the config (`booster config
  // check` runs a program with it). Also arranges that an uncaught Error ends the program with its
  // text and its exit code.
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
  // Returns a copy with another value for an option that this config has, for values that a program
  // learns later.
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
// Throws the errors that a program would meet, also for a pair that does not work together. Returns
// the strategy's notes.
std::vector<std::string> check_objects(const Config& config);

// Arranges that a program whose main lets an Error escape ends without abort(). It prints "error:
// TEXT" to stderr and exits with the error's exit code. With several ranks the text names the rank:
// "error: rank 1 (tensor 1): TEXT". Also opens /dev/null for standard files that the program was
// started without. Config::from_args calls it; calling it again changes nothing.
void report_uncaught_errors();

}  // namespace booster
