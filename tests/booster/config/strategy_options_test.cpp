// Every option of every strategy and plugin: its default, range, documentation, and the error for a
// wrong name, type or number.
#include "booster/booster.h"
#include "booster/config/options/option_tables.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>

using namespace booster;

namespace {

using Json = nlohmann::json;

// Returns the error of a config that gives a strategy (plugin) this value; "" if it is accepted.
std::string refusal(const char* key, const std::string& name, const std::string& option,
                    const Json& value) {
  const Json config = {{"booster", {{key, {{"name", name}, {option, value}}}}}};
  try {
    Config::from_text(config.dump(), "c.json", {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Returns a value of a type that the option does not take.
Json of_wrong_type(OptionType type) {
  switch (type) {
    case OptionType::boolean: return 1;
    case OptionType::integer: return 1.5;
    case OptionType::text:
    case OptionType::choice: return 5;
    case OptionType::scalar: return Json::array({1});
    default: return "nonsense";
  }
}

// Returns numbers just outside the range.
std::vector<Json> outside(const Option& option) {
  std::vector<Json> values;
  const bool whole = option.type == OptionType::integer;
  if (!whole && option.type != OptionType::number) return values;
  const auto add = [&](double limit, bool open, double direction) {
    if (!std::isfinite(limit)) return;
    if (whole)
      values.push_back(static_cast<int64_t>(limit + (direction > 0 ? 1 : -1)));
    else
      values.push_back(open ? limit : std::nextafter(limit, direction));
  };
  add(option.range.minimum, option.range.open_minimum, -INFINITY);
  add(option.range.maximum, option.range.open_maximum, INFINITY);
  return values;
}

std::string documents() {
  std::ostringstream text;
  for (const char* name : {"numerics.md", "training-step.md"})
    text << std::ifstream(test::golden_folder() + "/../../docs/" + name).rdbuf();
  return text.str();
}

void check_option(const char* key, const std::string& name, const Option& option) {
  CAPTURE(name);
  CAPTURE(option.name);
  CHECK(option.wanted() != "");
  CHECK(option.description != "");
  const std::string place = "booster." + std::string(key) + "." + option.name;
  const auto refuses = [&](const std::string& given, const Json& value) {
    const std::string error = refusal(key, name, given, value);
    CHECK_MESSAGE(error.find("want ") != std::string::npos, value.dump());
    return error;
  };
  const std::string type = refuses(option.name, of_wrong_type(option.type));
  CHECK_MESSAGE(type.find(place + ": wrong type") != std::string::npos, type);
  CHECK(type.find("want " + option.wanted()) != std::string::npos);
  for (const Json& value : outside(option)) {
    const std::string range = refuses(option.name, value);
    CHECK_MESSAGE(range.find(place + ": out of range") != std::string::npos, range);
  }
  if (option.type == OptionType::choice)
    CHECK(refuses(option.name, "nonsense").find(option.choices[0]) != std::string::npos);
  const std::string misspelt = refuses(option.name + "x", option.default_value);
  CHECK_MESSAGE(misspelt.find("did you mean " + option.name + "?") != std::string::npos, misspelt);
}

// The built-in names, without entries that other tests have registered.
const std::vector<std::string> plugins = {"single", "torch_ddp"};
const std::vector<std::string> all_strategies = {
    "fp32", "fp16", "fp16_apex", "fp16_naive", "fp16_paddle", "bf16", "fp8", "fp64", "auto"};

template <class Product>
void check_all(const char* key, const Registry<Product>& registry,
               const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto& entry = registry.find(name);
    for (const Option& option : entry.options) check_option(key, entry.name, option);
    CHECK_NOTHROW(entry.make(OptionValues(default_values(entry.options))));
  }
}

}  // namespace

TEST_CASE("every option refuses a wrong name, a wrong type and numbers outside of its range") {
  check_all("mixed_precision", precision_registry(), all_strategies);
  check_all("plugin", plugin_registry(), plugins);
}

TEST_CASE("every option of a strategy stands in the documents") {
  const std::string text = documents();
  REQUIRE(text.size() > 10000);
  const auto check_documented = [&](const std::string& strategy, const OptionTable& options) {
    for (const Option& option : options)
      CHECK_MESSAGE(text.find("`" + option.name) != std::string::npos, strategy, ": ", option.name);
  };
  for (const std::string& name : all_strategies) {
    const auto& entry = precision_registry().find(name);
    check_documented(entry.name, entry.options);
    for (const Option& option : entry.options) check_documented(entry.name, option.members);
  }
}
