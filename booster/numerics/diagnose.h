// Diagnose: the numerics doctor. It observes some training steps and reports what it found; the
// training loop does not change.
//
//   Diagnose doctor(boosted.model, {.steps = {1, 20}});
//   for (...) { ... }                       // the training loop
//   doctor.stop();
//   fmt::print("{}", doctor.table());
//   doctor.write("numerics.json");
//
// It does four things:
// * counts calls per op and dtype, and the casts between dtypes;
// * names the first op or parameter with a non-finite value when a step is skipped;
// * measures which gradients and updates 16 bits would lose;
// * checks every result if `checker` enables it.
// docs/diagnose.md describes the output. Diagnosed steps take several times as long; other steps,
// and programs without a Diagnose, have no cost. At most one Diagnose is active at a time. It
// belongs to the training thread.
#pragma once

#include "booster/training/boosted.h"
#include "parallel/groups/group.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace booster {

namespace numerics {

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

// One record; the same for all sources.
struct Finding {
  Pitfall pitfall = Pitfall::none;
  Severity severity = Severity::info;
  int64_t step = 0;    // the first step
  std::string object;  // op, layer or parameter
  std::string dtype;   // if it matters
  std::string text;    // observation, with values
  std::string remedy;
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
  int64_t count = 1;            // number of steps or calls in which it was seen
  std::vector<int> ranks = {};  // the ranks that saw it, if not all
  bool elsewhere = false;       // only states that the cause is on another rank

  nlohmann::ordered_json to_json() const;
  static Finding from_json(const nlohmann::ordered_json& json);
  std::string to_string() const;
};

// Which results are checked.
enum class CheckMode : uint8_t {
  none,
  abort,   // the first non-finite value throws an Error with the line
  report,  // one line per result with such a value
  range,   // the same, and f32 results beyond f16's range
  all,     // a line per result
};
// Returns the modes' names, in order.
const std::vector<std::string>& check_mode_names();
// Returns the mode with this name; throws an error with the legal names.
CheckMode check_mode(const std::string& name);

struct CheckerOptions {
  CheckMode mode = CheckMode::none;
  std::vector<std::string> checked_ops = {};  // empty: all
  std::vector<std::string> skipped_ops = {};
  std::filesystem::path file = {};  // output; empty: standard error
};

}  // namespace numerics

struct DiagnoseOptions {
  StepRange steps = {1, std::numeric_limits<int64_t>::max()};  // steps to diagnose
  int64_t steps_done = 0;  // steps of a resumed run, so that counting continues from there
  numerics::CheckerOptions checker = {};  // which results are checked, and where the lines go
};

class Diagnose {
 public:
  // Starts observing. Throws if another Diagnose is active.
  explicit Diagnose(const BoostedModel& model, DiagnoseOptions options = {});
  ~Diagnose();
  Diagnose(const Diagnose&) = delete;
  Diagnose& operator=(const Diagnose&) = delete;

  // Stops observing; calling it again has no effect. The other functions may be called at any time.
  void stop();
  // Stops and merges the findings of all ranks on every rank, so that all ranks have the same exit
  // code. Findings name the ranks that made them. Collective; each rank needs a Diagnose. Counts
  // and parameters in the output remain this rank's.
  void stop(const Group& group);
  // Returns the findings, errors first.
  std::vector<numerics::Finding> findings() const;
  // Returns 3 if a finding is an error, else 0.
  int exit_code() const;
  std::string table() const;
  nlohmann::ordered_json to_json() const;
  // Writes the same to a file, completely or not at all.
  void write(const std::filesystem::path& path) const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace booster
