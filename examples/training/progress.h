// Progress of a training run: a progress bar on a terminal, plain lines in a pipe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace example {

class ProgressDisplay {
 public:
  // `silent`: prints nothing (ranks other than 0).
  ProgressDisplay(int64_t first_step, int64_t total_steps, bool silent);
  ~ProgressDisplay();

  // Redraws the bar; called in every step.
  void step(int64_t step, int64_t epoch, double loss, double images_per_second);
  // Prints a line if there is no terminal; called in logged steps.
  void log(int64_t step, int64_t epoch, double loss, double images_per_second);
  // Prints a sentence that stays on the screen.
  void say(const std::string& text);

 private:
  std::string time_left(int64_t step) const;
  void clear();

  using Clock = std::chrono::steady_clock;
  int64_t first_, total_;
  bool silent_, terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  bool on_screen_ = false;
};

}  // namespace example
