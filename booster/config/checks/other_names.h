// Maps other systems' names to the names in our configs: "learning_rate" to lr, "float16" to fp16.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace booster {

// Returns our names for another system's `word`. Ignores letter case, _ and -.
std::vector<std::string> meant_by(std::string_view word);

// Returns the legal name that `word` means in another system or resembles; "" if there is none.
std::string our_name(std::string_view word, const std::vector<std::string>& legal);

// Returns legal_names (platform/error.h) with that name as the suggestion: "; want one of
// fp32, fp16 (did you mean fp16?)".
std::string legal_words(std::string_view word, const std::vector<std::string>& legal);

}  // namespace booster
