// Writes an ONNX graph to a file. Thread-safe.
#pragma once

#include "booster/export/onnx_graph.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace booster::onnx {

inline constexpr int64_t operator_set = 17, ir_version = 8;  // of ONNX 1.12, from 2022

// Writes a ModelProto; `metadata` are custom names and texts. Encodes one weight at a time to limit
// memory. Throws an Error of kind usage for a file over 2 GiB, the limit of Protocol Buffers
// readers. Throws one of kind failed if the file cannot be written.
void write_onnx(const std::filesystem::path& file, const Graph& graph,
                const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace booster::onnx
