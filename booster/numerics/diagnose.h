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

#include "booster/numerics/findings.h"
#include "booster/numerics/tensor_checker.h"
#include "booster/training/boosted.h"
#include "booster/training/step_range.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct DiagnoseOptions {
  StepRange steps = {1, std::numeric_limits<int64_t>::max()};  // steps to diagnose
  int64_t steps_done = 0;  // steps of a resumed run, so that counting continues from there
  numerics::CheckerOptions checker = {};  // which results are checked, and where the lines go
};

class Diagnose {
 public:
  // Throws if another Diagnose is active.
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
