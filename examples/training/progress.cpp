#include "examples/training/progress.h"

#include "examples/training/console.h"

#include <booster/booster.h>
#include <fmt/format.h>

#include <algorithm>

#include <unistd.h>

namespace example {

namespace {
constexpr int bar_width = 28;
constexpr auto redraw_every = std::chrono::milliseconds(100);
}  // namespace

ProgressDisplay::ProgressDisplay(int64_t first_step, int64_t total_steps, bool silent)
    : first_(first_step),
      total_(total_steps),
      silent_(silent),
      terminal_(isatty(STDOUT_FILENO) == 1) {}

ProgressDisplay::~ProgressDisplay() { clear(); }

void ProgressDisplay::clear() {
  if (on_screen_) print("\r\033[K");
  on_screen_ = false;
}

std::string ProgressDisplay::time_left(int64_t step) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const int64_t done = step - first_;
  if (done <= 0) return "?";
  const auto left = static_cast<int64_t>(seconds / static_cast<double>(done) *
                                         static_cast<double>(total_ - step));
  return left >= 3600 ? fmt::format("{}h{:02}m", left / 3600, left / 60 % 60)
                      : fmt::format("{}m{:02}s", left / 60, left % 60);
}

void ProgressDisplay::step(int64_t step, int64_t epoch, double loss, double images_per_second) {
  if (silent_ || !terminal_ || Clock::now() - drawn_ < redraw_every) return;
  drawn_ = Clock::now();
  const int filled = static_cast<int>(bar_width * step / std::max<int64_t>(total_, 1));
  print(fmt::format("\r\033[K[{:=<{}}>{:{}}] {}/{}  epoch {}  loss {:.4f}  {:.1f} img/s  {} left",
                    "", filled, "", bar_width - filled, step, total_, epoch, loss,
                    images_per_second, time_left(step)));
  on_screen_ = true;
}

void ProgressDisplay::log(int64_t step, int64_t epoch, double loss, double images_per_second) {
  if (silent_ || terminal_) return;
  print(fmt::format("step {}/{}  epoch {}  loss {:.4f}  {:.1f} img/s  {} left\n", step, total_,
                    epoch, loss, images_per_second, time_left(step)));
}

void ProgressDisplay::say(const std::string& text) {
  if (silent_) return;
  clear();
  print(booster::terminal_lines(text) + "\n");
}

}  // namespace example
