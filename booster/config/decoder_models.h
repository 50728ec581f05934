// The rows of llama, mistral, qwen2 and qwen3 in the table of models. Their options have the names
// of Hugging Face's config.json; those of "rope_parameters" begin with "rope_".
#pragma once

#include "booster/config/registry.h"
#include "core/nn/module.h"

#include <vector>

namespace booster {

inline constexpr const char* document_end_meaning =
    "the token that ends a document: texts are packed of several, which do not see each other";

std::vector<RegistryEntry<Model>> decoder_entries();

}  // namespace booster
