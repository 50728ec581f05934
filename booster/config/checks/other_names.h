// What other systems call what a config of ours names: "learning_rate" for lr, "float16" for fp16.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace booster {

// Those of our names that other systems' users mean by `word`; letter case, _ and - do not matter.
std::vector<std::string> meant_by(std::string_view word);

// The legal name that `word` means in another system, or is nearly; "" if there is none.
std::string our_name(std::string_view word, const std::vector<std::string>& legal);

// legal_names (platform/error.h) with that name as the suggestion: "; want one of fp32, fp16
// (did you mean fp16?)".
std::string legal_words(std::string_view word, const std::vector<std::string>& legal);

}  // namespace booster
