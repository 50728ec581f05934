// The last stage of encoding: adds tokens that start, end or separate sequences.
#pragma once

#include "core/text/description.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace booster::text {

// Tokens of one or two sequences, and for each which of the two segments of BERT it belongs to.
struct Sequences {
  std::vector<int32_t> first;
  std::vector<int32_t> second;
  bool pair = false;
};
struct Processed {
  std::vector<int32_t> tokens;
  std::vector<int32_t> segments;
};
// With special_tokens = false sequences are only put one after the other.
using PostProcessor = std::function<Processed(const Sequences&, bool special_tokens)>;

// Returns the stage that tokenizer.json's "post_processor" describes. Throws an error of kind data
// for a type that is not known.
PostProcessor post_processor_from(const Description& description);
// The stage of a file that has none: the sequences one after the other.
Processed joined(const Sequences& sequences, bool special_tokens);

}  // namespace booster::text
