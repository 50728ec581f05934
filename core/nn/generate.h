// The parts of generation (core/nn/models.h, generate): for models that several ranks compute.
#pragma once

#include "core/nn/models.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace booster {

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

// Returns the token to follow `text`, from the scores of all tokens. `draw` is uniform in [0, 1).
int32_t next_token(std::span<const float> scores, std::span<const int32_t> text,
                   const GenerateOptions& options, double draw);

}  // namespace booster
