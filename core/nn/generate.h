// Generation of text, token by token, with a key/value cache.
//
//   auto texts = generate(model, {prompt}, {.max_new_tokens = 64, .sample = true, .seed = 1});
#pragma once

#include "core/nn/module.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace booster {

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  bool sample = false;  // draw tokens; else take the most likely one
  // In the order in which they apply, as in transformers:
  double repetition_penalty = 1;  // divides positive scores of tokens in the text (Keskar et al.,
                                  // arXiv 1909.05858), multiplies negative ones; 1: none
  double temperature = 1;         // divides scores
  int64_t top_k = 0;  // only the k likeliest tokens, and those as likely as the last; 0: all
  double top_p = 1;   // only the likeliest whose probabilities reach p together (Holtzman et al.,
                      // arXiv 1904.09751), one at least
  uint64_t seed = 0;  // of the draws; the same seed gives the same text
  std::vector<int32_t> stop_tokens = {};  // a text ends with the first of these
  // Called for each new token of each text, in order; returns false to end the text. Where ranks
  // share a model, all call it, and the first one's answer counts.
  std::function<bool(size_t text, int32_t token)> on_token = {};
};

using TokenTexts = std::vector<std::vector<int32_t>>;

// What computes logits (n, tokens, vocabulary) of token ids (n, tokens).
using TokenModelCall = std::function<Tensor(const Tensor& ids)>;

// A model that several ranks compute together: the first one chooses the tokens of all.
struct SharedTokenModel {
  TokenModelCall logits;
  // Replaces the numbers by the first rank's; all ranks call it.
  std::function<void(std::span<int64_t> numbers)> agree;
  bool is_first = true;
};

// Returns the new tokens of each prompt, without the prompt; a stop token is the last one. The
// model is one that knows the cache (key_value_cache.h), in evaluation mode. Throws for an empty
// prompt, and for options that make no sense. Draws use a random stream of their own.
TokenTexts generate(const TokenModelCall& model, const TokenTexts& prompts,
                    const GenerateOptions& options = {});
TokenTexts generate(const SharedTokenModel& model, const TokenTexts& prompts,
                    const GenerateOptions& options = {});
// Puts the model into evaluation mode meanwhile. For a boosted model see
// booster/training/boosted_generate.h.
TokenTexts generate(const Model& model, const TokenTexts& prompts,
                    const GenerateOptions& options = {});

// Returns the token to follow `text`, from the scores of all tokens. `draw` is uniform in [0, 1).
int32_t next_token(std::span<const float> scores, std::span<const int32_t> text,
                   const GenerateOptions& options, double draw);

}  // namespace booster
