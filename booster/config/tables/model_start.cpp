#include "booster/config/tables/model_start.h"

#include "booster/checkpoint/start_weights.h"

#include <algorithm>

namespace booster {

namespace {

void freeze(const Model& model, const std::vector<std::string>& patterns) {
  model->freeze(patterns);
  const Parameters parameters = model.parameters();
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
                   "names of parameters and modules that do not train; * and ? as in file names; "
                   "!NAME trains after all: [\"!head\"] freezes all but the head")};
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
