// Applies command-line values (--set key.path=value) to a JSON object.
#pragma once

#include "platform/json/json_document.h"

#include <string>

namespace booster {

// Sets one value of `root`, an object; missing objects on the path are added, and a name in short
// form ("torch_ddp") is expanded to its object. The value is JSON, or otherwise a string. `text` is
// "key.path=value"; errors show it. Error for a path of more levels than a file may have
// (JsonLimits), and for more than 1000 keys in one object.
void apply_override(JsonValue& root, const std::string& text);

}  // namespace booster
