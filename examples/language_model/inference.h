// What a trained model is used for: perplexity, multiple choice, a text.
#pragma once

#include <booster/booster.h>

namespace language_model {

// Does what the section `inference` asks for and prints the results. Returns false if it asks for
// nothing. All ranks call it.
bool infer(const booster::Config& config, const booster::World& world);

}  // namespace language_model
