// Values of the command line (--set key.path=value) laid over a JSON object.
#pragma once

#include "booster/config/json_document.h"

#include <string>

namespace booster {

// Sets one value of `root`, an object; what it lacks on the way is added, and a name in its short
// form ("torch_ddp") becomes the object it stands for. The value is JSON, or else a string.
// `text` is "key.path=value"; errors show it.
void apply_override(JsonValue& root, const std::string& text);

}  // namespace booster
