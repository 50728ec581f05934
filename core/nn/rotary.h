// Rotary position embeddings (Su et al., "RoFormer", 2021) and the ways to stretch them over longer
// texts, as Hugging Face's modeling_rope_utils.py defines them.
//
// Pairs (x[i], x[i + size / 2]) of a head's features turn by the angle position * frequency[i].
#pragma once

#include "core/autograd/functions.h"
#include "core/nn/models.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace booster {

using models::RotaryOptions;

// Returns the kinds of scaling.
std::vector<std::string> rotary_scalings();
// Throws for an unknown kind, with the nearest one, and for numbers that make no sense.
void check_rotary(const RotaryOptions& options);
// Throws unless a head of this size can be turned.
void check_rotary_size(int64_t size);

// Returns size / 2 frequencies for a text of `tokens` tokens.
std::vector<float> rotary_frequencies(int64_t size, const RotaryOptions& options, int64_t tokens);
// Returns the factor of cosines and sines; 1 except for yarn.
double rotary_amplitude(const RotaryOptions& options);

struct RotaryTables {
  Tensor cosines, sines;  // ([batch,] tokens, size / 2) f32
};

// The tables of a model, which its layers share. Keeps those of the last call. Thread-safe.
class Rotary {
 public:
  Rotary(int64_t size, RotaryOptions options);
  ~Rotary();
  // Of positions first to first + tokens - 1.
  RotaryTables tables(int64_t first, int64_t tokens, Device device) const;

 private:
  struct Last;
  int64_t size_;
  RotaryOptions options_;
  std::unique_ptr<Last> last_;
};

// Returns the tables' rows at these positions (batch, tokens), i64: (batch, tokens, size / 2).
RotaryTables tables_at(const RotaryTables& tables, const Tensor& positions);

// Turns x (batch, heads, tokens, size), all texts of a batch alike or each by its own angles.
// Computed in f32 where x has 16 bits, and rounded once.
Tensor rotate(const Tensor& x, const RotaryTables& tables);

}  // namespace booster
