// Made-up stories for runs without data, in the few words and the simple plots of TinyStories
// (Eldan and Li, 2023, arXiv 2305.07759).
#pragma once

#include <cstdint>
#include <string>

namespace language_model {

// Returns `count` stories, each followed by `end`. The same seed gives the same stories.
std::string made_stories(int64_t count, const std::string& end, uint32_t seed = 1);

}  // namespace language_model
