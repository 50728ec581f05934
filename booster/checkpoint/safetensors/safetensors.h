// The safetensors format (huggingface/safetensors, version of May 2026): eight bytes of header
// length, a JSON header, the tensors' bytes.
//
// Reading is safe for any input. It checks every rule of the format before it returns anything.
// Each Error (kind data) names the broken rule, the tensor and the offsets. White space around the
// header is accepted, as in the reference reader. Duplicate names are refused, as the specification
// requires. Writing is reproducible: the same tensors give the same bytes. Thread-safe.
#pragma once

#include "core/tensor/tensor.h"

#include <filesystem>
#include <map>
#include <string>

namespace booster {

class Sha256;

using Metadata = std::map<std::string, std::string>;
using TensorMap = std::map<std::string, Tensor>;

// Adds every byte read to `hash`, if there is one.
TensorMap load_safetensors(const std::filesystem::path& path, Sha256* hash = nullptr);
// Replaces the file completely or not at all.
void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                      const Metadata& metadata = {});

}  // namespace booster
