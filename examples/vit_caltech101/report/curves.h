// curves.svg: training loss, learning rate and validation accuracy over the steps of a run.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace example {

// An SVG document drawn from the lines of metrics.jsonl.
std::string draw_curves(const std::vector<nlohmann::json>& metrics);

}  // namespace example
