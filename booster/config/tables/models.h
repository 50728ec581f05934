// The models that a config may name, with their options. Thread-safe.
#pragma once

#include "booster/config/tables/named_entry.h"
#include "core/nn/module.h"

namespace booster {

using ModelEntry = NamedEntry<Model(const OptionValues&)>;
const std::vector<ModelEntry>& model_entries();

}  // namespace booster
