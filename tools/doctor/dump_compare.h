// Compares the tensor checker's dumps of two runs, usually one in f32 and one in 16 bits with the
// same data and seed. It uses the rules of paddle.amp.debugging.compare_accuracy.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace booster::numerics {

// One line of a dump.
struct DumpLine {
  std::string op, tensor, dtype;
  int64_t step = 0, numel = 0, nans = 0, infs = 0, zeros = 0;
  double max = 0, min = 0, mean = 0;
};
// Reads one dump file, or all files worker_* in a folder. Throws an Error with file and line for a
// line that has the tensor checker's form but is invalid.
std::vector<DumpLine> read_dump(const std::filesystem::path& path);

struct ComparedRow {
  DumpLine a, b;
  bool in_a = true, in_b = true;
  // Ratio b / a of max, min and mean; 1 if both are equal. A ratio is off if it is outside 0.95 to
  // 1.05 times 1, or times the loss scale for gradients.
  std::array<double, 3> ratio = {1, 1, 1};
  std::array<bool, 3> off = {};
  std::string abnormal = {};  // why, or ""

  bool flagged() const;
};

struct Comparison {
  std::vector<ComparedRow> rows;  // in a's order, then those only in b
  int64_t abnormal = 0, flagged = 0, unmatched = 0;

  std::string text(bool all) const;  // all: also rows without a finding
  std::string csv() const;
  nlohmann::ordered_json to_json() const;
};

// Compares two dumps. Rows are matched by step, op and tensor, in the order of the calls.
// `loss_scale` is the factor by which b's gradients, but not a's, are multiplied.
//
// A row is abnormal if any of these holds:
// * it has more than 2^31 - 1 elements;
// * a's extremes (times the loss scale, for gradients) exceed f16's range;
// * b has inf or nan;
// * a gradient's extremes differ by more than 1 % (and 0.01).
Comparison compare_dumps(const std::vector<DumpLine>& a, const std::vector<DumpLine>& b,
                         double loss_scale = 1);

}  // namespace booster::numerics
