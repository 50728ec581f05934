// What a model costs on one rank that has all of it: the numbers that a plan spreads. Plain values.
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
  double seconds = 0;  // as measured here; 0: it was not
};

// By dtype, products ("bf16") apart from the rest ("bf16 elementwise").
using Works = std::map<std::string, Work>;
// Done so many times.
Works operator*(Works works, double times);
// On so much more: as many calls, each with more to do.
Works grown(Works works, double factor);
Works operator+(Works a, const Works& b);
Works operator-(const Works& a, const Works& b);

// A part of a model: its ends, which are the embedding and the head, or one of its blocks.
struct PartCost {
  double parameters = 0;  // numbers
  double cut = 0;         // of these, the ones that tensor ranks share out
  Works forward = {}, backward = {};
  double saved_bytes = 0;  // that forward leaves for backward
};

// What a strategy and an optimizer keep for each parameter, in bytes.
struct BytesPerParameter {
  double parameters = 4, copies = 0, gradients = 4, masters = 0, optimizer = 8;
};

// Of a batch of `rows` samples.
struct ModelCost {
  int64_t rows = 1;
  PartCost ends = {}, block = {};
  int blocks = 0;  // alike; 0: the model is not made of blocks, and cannot be cut
  int64_t heads = 1, tokens = 1;
  double stream_bytes = 0;     // what goes from block to block
  double workspace_bytes = 0;  // at the peak of a step, beside what is counted elsewhere
  BytesPerParameter bytes = {};
  Works update = {};   // of all parameters
  double loading = 0;  // seconds that a sample takes from the cores that compute

  double parameters() const { return ends.parameters + blocks * block.parameters; }
};

// A decoder (GPT) or encoder (ViT) by the formulas of the literature, where it is too large to be
// tried here: 2 FLOP per parameter of a product and token forward, twice that backward, and 4 s^2 h
// for attention; 34 s h bytes that a block saves per sample in 16 bits with flash attention
// (Korthikanti et al., 2022, without the term of attention's matrix).
struct TransformerSizes {
  int64_t layers = 12, features = 768, tokens = 197, heads = 12;
  double block_parameters = 0;  // 0: 12 features^2
  double end_parameters = 0;    // embedding and head
  int bytes = 2;                // of an activation
  std::string dtype = "bf16";
};
ModelCost transformer_cost(const TransformerSizes& sizes, int64_t rows,
                           const BytesPerParameter& bytes);

}  // namespace booster::plan
