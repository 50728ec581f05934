// The findings of a diagnosis: records in one format for all sources.
//
// A pitfall has a number, 1 to 40, in the catalogue of mixed-precision pitfalls in
// docs/numerics.md. Output and files refer to it by that number. The same pitfall at the same
// object is one finding with a count. For one thread.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace booster::numerics {

enum class Severity : uint8_t { info, warning, error };
const char* name_of(Severity severity);

// In the order of the catalogue: the value is the number.
enum class Pitfall : uint8_t {
  none,  // not in the catalogue
  no_matrix_units = 1, constant_out_of_range, fully_masked_softmax, awkward_sizes, sum_overflow,
  unlisted_ops, in_place_f32_op, binary_cross_entropy_in_f16, scale_collapse, occasional_overflow,
  stale_inf_gradients, scale_growth_to_inf, infinite_inverse_scale, clipped_while_scaled,
  clipped_unused_gradients, unscaled_twice, f16_gradients, missing_gradients, fused_unscale,
  lr_moved_on_skip, ranks_disagree, checkpoint_without_scaler, cached_cast_without_history,
  stale_cached_cast, mixed_16_bit_dtypes, batch_norm_dtype, exclusive_options, average_in_16_bits,
  gradients_changed, vanishing_gradients, zero_eps, updates_lost, other_thread, awkward_fp8_sizes,
  fp8_amax, non_finite_forward, several_defaults, unowned_parameters, late_parameters,
  scaled_loss_overflow,
};
inline int number_of(Pitfall pitfall) { return static_cast<int>(pitfall); }

struct PitfallEntry {
  Pitfall pitfall;
  Severity severity;
  const char* name;    // "scale collapses"
  const char* remedy;  // the rule of thumb for fixing it
};
// All 40, by number.
const std::array<PitfallEntry, 40>& pitfalls();
// Throws for Pitfall::none.
const PitfallEntry& entry_of(Pitfall pitfall);

struct Finding {
  Pitfall pitfall = Pitfall::none;
  Severity severity = Severity::info;
  int64_t step = 0;    // the first step
  std::string object;  // op, layer or parameter
  std::string dtype;   // if it matters
  std::string text;    // what was seen, with values
  std::string remedy;
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
  int64_t count = 1;            // number of steps or calls in which it was seen
  std::vector<int> ranks = {};  // the ranks that saw it, if not all did
  bool elsewhere = false;       // only states that the cause is on another rank

  nlohmann::ordered_json to_json() const;
  static Finding from_json(const nlohmann::ordered_json& json);
  std::string to_string() const;
};

class Findings {
 public:
  // Adds a finding with the pitfall's severity, and with its remedy unless the finding has its own.
  void add(Pitfall pitfall, int64_t step, std::string object, std::string text,
           nlohmann::ordered_json numbers = nlohmann::ordered_json::object());
  void add(Finding finding);

  const std::vector<Finding>& list() const { return list_; }
  bool has(Pitfall pitfall) const;
  bool has(Severity severity) const;
  // Merges the findings of several ranks. A finding of only some ranks names them. A finding that
  // only states that the cause is on another rank is replaced by the cause.
  static Findings merged(const std::vector<Findings>& by_rank);
  // Returns the findings, errors first, then by step.
  std::vector<Finding> sorted() const;

 private:
  // Returns a finding with the same pitfall and object, or null.
  Finding* find_like(const Finding& finding);

  std::vector<Finding> list_;
};

}  // namespace booster::numerics
