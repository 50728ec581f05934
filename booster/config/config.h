// The JSON config: its layout, checking, overrides and typed access.
//
//   Config config = Config::from_args(argc, argv);   // --config FILE, --set key.path=value
//   double lr = config.get<double>("optimizer.lr");
//
// Every mistake is an Error of kind usage (exit code 2) that begins with file:line:column, or with
// the override it came from, and the key's path; nothing is written. Only data.root may name an
// environment variable, as a leading $NAME. A Config is a value; sharing one for reading is safe.
#pragma once

#include "booster/config/options.h"

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

class Config {
 public:
  // All defaults.
  Config();
  static Config from_file(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides = {});
  // `name` names the text in errors.
  static Config from_text(std::string_view text, const std::string& name = "config",
                          const std::vector<std::string>& overrides = {});
  // Understands --config FILE, --set key.path=value (a JSON value, otherwise a string; the last one
  // wins), --profile FIRST:LAST (sets train.profile) and --help, which prints usage and exits. Also
  // arranges for an uncaught Error to end the program with its text and its exit code.
  static Config from_args(int argc, const char* const* argv);

  // The value at a path such as "optimizer.lr"; error if there is none or its type is not T.
  template <class T>
  T get(const std::string& path) const {
    const auto [section, name] = split(path);
    return options(section).get<T>(name);
  }
  bool has(const std::string& path) const;
  // The options of a section: "optimizer", "booster.plugin", or "" for top-level options.
  OptionValues options(const std::string& section) const;

  // Every effective value, including defaults.
  const nlohmann::json& to_json() const { return values_; }

 private:
  explicit Config(nlohmann::json values) : values_(std::move(values)) {}
  static std::pair<std::string, std::string> split(const std::string& path);
  nlohmann::json values_;
};

// Makes a program whose main lets an Error escape end with "error: TEXT" on stderr and the error's
// exit code instead of abort(). Called by Config::from_args; calling it again has no effect.
void report_uncaught_errors();

}  // namespace booster
