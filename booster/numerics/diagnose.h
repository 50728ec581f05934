// Diagnose: a doctor for the numbers of a training. It looks on while some steps run and says what
// it found; the loop stays as it is.
//
//   Diagnose doctor(boosted.model, {.steps = {1, 20}});
//   for (...) { ... }                       // the training loop
//   doctor.stop();
//   fmt::print("{}", doctor.table());
//   doctor.write("numerics.json");
//
// It counts calls per op and dtype and the casts between them; names the first op or parameter that
// was not finite when a step is skipped; measures which gradients and updates 16 bits would lose;
// and checks every result if `check` says so. docs/numerics.md describes the output. Diagnosed
// steps take several times as long; outside of them, and when there is no Diagnose, nothing is
// done. At most one Diagnose looks on at a time. It belongs to the thread that trains.
#pragma once

#include "booster/boosted.h"
#include "booster/numerics/findings.h"
#include "booster/numerics/tensor_checker.h"
#include "booster/profile/step_range.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct DiagnoseOptions {
  StepRange steps = {1, std::numeric_limits<int64_t>::max()};  // those it looks at
  int64_t steps_done = 0;  // of a training that was resumed: the next step is one more
  numerics::CheckerOptions checker = {};  // results that are checked, and where the lines go
};

class Diagnose {
 public:
  // Error if another Diagnose looks on.
  explicit Diagnose(const BoostedModel& model, DiagnoseOptions options = {});
  ~Diagnose();
  Diagnose(const Diagnose&) = delete;
  Diagnose& operator=(const Diagnose&) = delete;

  // Looks on no longer; again does nothing. The rest may be called at any time.
  void stop();
  // Stops, and makes the findings of all ranks everybody's, with the ranks that made them; then
  // exit codes are the same. Each rank needs a Diagnose, and all call it. Counts and parameters in
  // the output stay this rank's.
  void stop(const Group& group);
  // Errors first.
  std::vector<numerics::Finding> findings() const;
  // 0, or 3 if a finding is an error.
  int exit_code() const;
  std::string table() const;
  nlohmann::ordered_json to_json() const;
  // The same to a file, whole or not at all.
  void write(const std::filesystem::path& path) const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace booster
