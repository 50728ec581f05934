// What looks at a training while it runs, where the config asks for it: the profiler and the
// numerics doctor.
#pragma once

#include <booster/booster.h>

#include <filesystem>
#include <functional>
#include <optional>

namespace example {

class Instruments {
 public:
  // `say` shows text to the user; `output` is the folder for their files.
  Instruments(const booster::Config& config, const booster::World& world,
              const std::filesystem::path& output, const booster::BoostedModel& model,
              int64_t steps_done, std::function<void(const std::string&)> say);

  void before_step(int64_t step);
  // Reports what ends with this step. All ranks call it after the same step.
  void after_step(int64_t step);
  // Nothing is recorded from now on. Files come with finish(), which a training saves before.
  void stop();
  // Reports what is still under way. All ranks call it together. A file that cannot be written is a
  // warning, here and above.
  void finish();
  // The same by one rank alone, after an error: the doctor's findings so far may explain it.
  void finish_alone();
  // What the program should end with: 0, or that of the doctor's findings.
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
