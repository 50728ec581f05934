// The JSON config: its layout, checking, overrides and typed access.
//
//   Config config = Config::from_args(argc, argv);   // --config FILE, --set key.path=value
//   double lr = config.get<double>("optimizer.lr");
//
// The library knows the sections booster, model, optimizer and lr_scheduler, and device; a program
// that wants more of its config declares its own sections (ProgramConfig in section.h).
//
// All mistakes together are one Error of kind usage (exit code 2) with a line for each, in the
// order of the file, that begins with file:line:column, or with the override it came from, and the
// key's path; nothing is written. Mistakes are also options that do not go together: what the
// model, the optimizer, the schedule or the strategy would refuse. Only an option of type data_path
// may name an environment variable, as a leading $NAME. A Config is a value; sharing one for
// reading is safe.
#pragma once

#include "booster/config/options/section.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

class Config {
 public:
  // All defaults.
  Config();
  static Config from_file(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides = {},
                          const ProgramConfig& program = {});
  // `name` stands for the text in errors.
  static Config from_text(std::string_view text, const std::string& name = "config",
                          const std::vector<std::string>& overrides = {},
                          const ProgramConfig& program = {});
  // Understands --config FILE, --set key.path=value (a JSON value, else taken as a string; the
  // later wins) and the program's own arguments. Three end the program: --help prints how to use
  // them, --schema the JSON schema of its configs, and --check checks the config, as `booster
  // config check` does, which asks a program by it. Also arranges that an Error nobody catches ends
  // the program with its text and its exit code.
  static Config from_args(int argc, const char* const* argv, const ProgramConfig& program = {});

  // The value at a path such as "optimizer.lr"; error if there is none or its type is not T.
  template <class T>
  T get(const std::string& path) const {
    const auto [section, name] = split(path);
    return options(section).get<T>(name);
  }
  bool has(const std::string& path) const;
  // True if the file or an override says something of this section.
  bool gives(const std::string& section) const;
  // The same with another value of an option that this config has: a program fills in what it
  // learns later.
  Config with(const std::string& path, nlohmann::json value) const;
  // The options of a section: "optimizer", "booster.plugin", or "" for top-level options.
  OptionValues options(const std::string& section) const;

  // Every effective value, including defaults.
  const nlohmann::json& to_json() const { return values_; }
  // The same without files and folders, which may be elsewhere on another machine.
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

// Makes the plugin and the strategy that a config names, and the model and the optimizer if it
// gives a model, with the errors that a program would meet, also for a pair that does not work
// together. Returns what the strategy has to say.
std::vector<std::string> check_objects(const Config& config);

// A program whose main lets an Error escape ends with "error: TEXT", behind the name of its rank
// where there are several ("error: rank 1 (tensor 1): TEXT"), on stderr and the error's exit
// code, rather than by abort(). Standard files that it was started without are /dev/null from now
// on. Called by Config::from_args; calling it again changes nothing.
void report_uncaught_errors();

}  // namespace booster
