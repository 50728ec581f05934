// Rotary position embeddings (Su et al., "RoFormer", 2021) and the ways to stretch them over longer
// texts, as Hugging Face's modeling_rope_utils.py defines them.
//
// Pairs (x[i], x[i + size / 2]) of a head's features turn by the angle position * frequency[i].
#pragma once

#include "core/autograd/functions.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct RotaryOptions {
  double theta = 10000;  // frequency[i] = theta^(-2 i / size)
  // default; linear: frequencies / factor (Chen et al., arXiv 2306.15595); dynamic: a larger theta
  // for texts of more than max_positions tokens; llama3: low frequencies / factor; yarn (Peng et
  // al., arXiv 2309.00071).
  std::string scaling = "default";
  double factor = 1;
  int64_t max_positions = 2048;                            // the model's
  std::optional<int64_t> original_positions = {};          // llama3, yarn: before stretching
  double low_freq_factor = 1, high_freq_factor = 4;        // llama3
  std::optional<double> attention_factor = {};             // yarn: of cosines and sines
  double beta_fast = 32, beta_slow = 1;                    // yarn
  std::optional<double> mscale = {}, mscale_all_dim = {};  // yarn
  bool truncate = true;                                    // yarn
};

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
