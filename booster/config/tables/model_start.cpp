#include "booster/config/tables/model_start.h"

#include "booster/checkpoint/start_weights.h"
#include "platform/name_pattern.h"

#include <algorithm>

namespace booster {

namespace {

// Returns true if the pattern matches a parameter, or a module that holds it.
bool stands_for(const std::string& pattern, const std::string& parameter) {
  return matches_name(pattern, parameter) || matches_name(pattern + ".*", parameter);
}

void freeze(const Model& model, const std::vector<std::string>& patterns) {
  const Parameters parameters = model.parameters();
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const auto& [name, tensor] : parameters)
      if (stands_for(pattern, name)) {
        Tensor(tensor).requires_grad_(false);
        found = true;
      }
    std::vector<std::string> names;
    for (const auto& [name, tensor] : parameters) names.push_back(name);
    const std::string near = found ? "" : nearest_name(pattern, names);
    check(found, "model.freeze: {} matches no parameter or module of a {}{}", pattern,
          model->kind(), near.empty() ? "" : "; did you mean " + near + "?");
  }
  check(std::ranges::any_of(parameters, [](const auto& one) { return one.tensor.requires_grad(); }),
        "model.freeze: no parameter remains to train");
}

}  // namespace

OptionTable start_options() {
  return {
      or_null(path_option("weights", "",
                          "initial weights, a safetensors file of timm, Hugging Face or a "
                          "checkpoint; the head is new if the number of classes differs")),
      texts_option("freeze", {},
                   "names of parameters and modules that do not train; * and ? as in file names")};
}

void start(const Model& model, const OptionValues& options,
           const std::function<void(const std::string&)>& report) {
  if (const auto weights = options.given<std::string>("weights")) {
    const std::string text = load_start_weights(model, *weights).to_string();
    if (report) report("weights: " + *weights + (text.empty() ? "" : "; " + text));
  }
  const auto patterns = options.get<std::vector<std::string>>("freeze");
  if (!patterns.empty()) freeze(model, patterns);
}

}  // namespace booster
