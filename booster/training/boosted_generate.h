// Generation of text by a boosted model, in its precision and on its ranks, between steps of a
// training or after it.
//
//   TokenTexts texts = generate(net, {prompt}, {.max_new_tokens = 64});
#pragma once

#include "booster/training/boosted.h"
#include "core/nn/generate.h"

namespace booster {

// As generate() for a Model (core/nn/generate.h). The training goes on as if it had not been
// called: modes of modules are restored, nothing is recorded, and its random streams do not move.
//
// Ranks along the axis tensor call it with the same prompts and get the same texts, which the first
// of them chooses. Other ranks may have other prompts. Where ranks hold parts of parameters (fsdp),
// these are whole meanwhile, and all ranks call it together. Throws where ranks share layers
// (pipeline) or tokens (sequence).
TokenTexts generate(const BoostedModel& model, const TokenTexts& prompts,
                    const GenerateOptions& options = {});

}  // namespace booster
