// Applies command-line values (--set key.path=value) to a JSON object.
#pragma once

#include "platform/json/json_document.h"

#include <string>

namespace booster {

// Sets one value of `root`, an object. Adds missing objects along the path and expands a short name
// ("torch_ddp") to its object. `text` is "key.path=value", which errors quote; the value is JSON,
// else a string. A value that begins with NUL is a list of strings, each after a NUL. Throws for a
// path with more levels than a file may have (JsonLimits), and for more than 1000 keys in one
// object.
void apply_override(JsonValue& root, const std::string& text);

}  // namespace booster
