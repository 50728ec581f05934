// Instruments that observe a running training if the config asks for them: the profiler and the
// numerics doctor.
#pragma once

#include <booster/booster.h>

#include <filesystem>
#include <functional>
#include <optional>

namespace example {

class Instruments {
 public:
  // `say` shows text to the user; `output` is the folder for the instruments' files.
  Instruments(const booster::Config& config, const booster::World& world,
              const std::filesystem::path& output, const booster::BoostedModel& model,
              int64_t steps_done, std::function<void(const std::string&)> say);

  void before_step(int64_t step);
  // Reports instruments that end with this step. Collective, after the same step on all ranks.
  void after_step(int64_t step);
  // Stops recording. Files are written by finish(); a training saves a checkpoint before that.
  void stop();
  // Reports instruments that are still active. Collective. Here and above, a file that cannot be
  // written only causes a warning.
  void finish();
  // Does the same on one rank alone, after an error: the doctor's findings so far may explain it.
  void finish_alone();
  // Returns the program's exit code: 0, or the exit code of the doctor's findings.
  int exit_code() const { return exit_code_; }

 private:
  void finish_profile();
  void finish_diagnosis(const booster::Group& group);

  booster::World world_;
  std::filesystem::path output_;
  std::function<void(const std::string&)> say_;
  std::optional<booster::StepRange> profiled_;
  std::optional<booster::Profiler> profiler_;  // while it records
  std::optional<booster::Diagnose> doctor_;    // until all its steps are done
  int exit_code_ = 0;
};

}  // namespace example
