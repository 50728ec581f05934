// The JSON config: what may stand in it, checking, overrides, typed access.
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
  // `name` stands for the text in errors.
  static Config from_text(std::string_view text, const std::string& name = "config",
                          const std::vector<std::string>& overrides = {});
  // Understands --config FILE, --set key.path=value (a JSON value, else taken as a string; the
  // later wins), --profile FIRST:LAST (sets train.profile) and --help, which prints how to use them
  // and ends the program. Also arranges that an Error nobody catches ends the program with its text
  // and its exit code.
  static Config from_args(int argc, const char* const* argv);

  // The value at a path such as "optimizer.lr"; error if there is none or its type is not T.
  template <class T>
  T get(const std::string& path) const {
    const auto [section, name] = split(path);
    return options(section).get<T>(name);
  }
  bool has(const std::string& path) const;
  // The options of a section: "optimizer", "booster.plugin", or "" for those at the top.
  OptionValues options(const std::string& section) const;

  // Every value in force, defaults included.
  const nlohmann::json& to_json() const { return values_; }

 private:
  explicit Config(nlohmann::json values) : values_(std::move(values)) {}
  static std::pair<std::string, std::string> split(const std::string& path);
  nlohmann::json values_;
};

// A program whose main lets an Error escape ends with "error: TEXT" on stderr and the error's exit
// code, rather than by abort(). Called by Config::from_args; calling it again changes nothing.
void report_uncaught_errors();

}  // namespace booster
