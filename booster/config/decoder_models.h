// The rows of llama, mistral, qwen2 and qwen3 in the table of models. Their options have the names
// of Hugging Face's config.json; those of "rope_parameters" begin with "rope_".
#pragma once

#include "booster/config/registry.h"
#include "core/nn/module.h"

#include <vector>

namespace booster {

std::vector<RegistryEntry<Model>> decoder_entries();

}  // namespace booster
