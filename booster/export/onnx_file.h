// An ONNX graph as a file. Thread-safe.
#pragma once

#include "booster/export/onnx_graph.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace booster::onnx {

inline constexpr int64_t operator_set = 17, ir_version = 8;  // of ONNX 1.12, from 2022

// Writes a ModelProto; `metadata` are names and texts of one's own. Weights are encoded one after
// the other, so that memory holds one of them. Error of kind usage for a file over 2 GiB, which no
// reader of Protocol Buffers takes; of kind failed if it cannot be written.
void write_onnx(const std::filesystem::path& file, const Graph& graph,
                const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace booster::onnx
