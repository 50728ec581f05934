// The row of bert in the table of models, and what is its own in Hugging Face's config.json. Its
// options have the names of config.json.
#pragma once

#include "booster/config/registry.h"
#include "core/nn/module.h"
#include "platform/json/json_document.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace booster {

namespace models {
class Bert;
}

RegistryEntry<Model> bert_entry();

// Returns the option for which a key of a bert's config.json stands under another name or in
// another form: "architectures", "id2label", "label2id", a pad_token_id of null. A value of kind
// null says nothing. Returns nothing for any other key. Throws an error of kind data for a value
// that our bert does not have, such as relative positions.
std::optional<JsonValue> bert_option_of(const JsonValue& value, const std::string& file);

// Returns the model's config.json.
nlohmann::ordered_json config_of(const models::Bert& bert);

}  // namespace booster
