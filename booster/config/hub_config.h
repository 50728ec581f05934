// The keys of Hugging Face's config.json as options of our models, and back.
#pragma once

#include "platform/json/json_document.h"

#include <string>

namespace booster {

struct HubConfig {
  std::string type;   // model_type
  JsonValue options;  // an object with the names of the model's options
};

// Sorts the keys of a config.json: options, options under other names ("rope_parameters"), what
// must have the value that our model has ("hidden_act"), and what does not concern the weights.
// Throws an error of kind data for any other key, unless its value is null or false.
HubConfig hub_config(const JsonValue& config, const std::string& file);

}  // namespace booster
