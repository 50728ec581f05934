// The cost of a model on one rank that holds all of it; a plan distributes this cost. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace booster::plan {

// Kernels of one kind, summed.
struct Work {
  double gflop = 0;   // 10^9; 0: not a product
  double gbytes = 0;  // 10^9, read and written
  double calls = 0;
  double seconds = 0;  // as measured here; 0: not measured
};

// Work by dtype; products ("bf16") are separate from the rest ("bf16 elementwise").
using Works = std::map<std::string, Work>;
// Returns the work repeated `times` times.
Works operator*(Works works, double times);
// Returns the same number of calls, each with `factor` times the work.
Works grown(Works works, double factor);
Works operator+(Works a, const Works& b);
Works operator-(const Works& a, const Works& b);

// The cost of a part of a model: one of its blocks, or its ends (embedding and head).
struct PartCost {
  double parameters = 0;  // elements
  double cut = 0;         // of these, those that tensor-parallel ranks split
  Works forward = {}, backward = {};
  double saved_bytes = 0;  // saved in forward for backward
};

// Bytes that a strategy and an optimizer keep per parameter.
struct BytesPerParameter {
  double parameters = 4, copies = 0, gradients = 4, masters = 0, optimizer = 8;
};

// The cost of a batch of `rows` samples.
struct ModelCost {
  int64_t rows = 1;
  PartCost ends = {}, block = {};
  int blocks = 0;  // identical; 0: the model has no blocks and cannot be cut
  int64_t heads = 1, tokens = 1;
  double stream_bytes = 0;     // sent from block to block
  double workspace_bytes = 0;  // at the peak of a step, in addition to what is counted elsewhere
  BytesPerParameter bytes = {};
  Works update = {};   // for all parameters
  double loading = 0;  // seconds per sample, on the cores that compute

  double parameters() const { return ends.parameters + blocks * block.parameters; }
};

}  // namespace booster::plan
