#include "examples/training/time_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <sstream>
#include <utility>

#include <time.h>
#include <unistd.h>

namespace example {

namespace {

constexpr const char* names[] = {"start", "training", "validation", "data", "checkpoints", "rest"};

double seconds_since_boot() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Field 22 of /proc/self/stat, see proc(5); now, if the system does not provide it.
double made_at() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));  // after field 2, the name
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double now = seconds_since_boot();
  int64_t ticks = -1;
  std::from_chars(field.data(), field.data() + field.size(), ticks);
  if (!fields || ticks < 0) return now;
  return std::min(now, static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

double seconds_of_this_process() {
  static const double start = made_at();
  return seconds_since_boot() - start;
}

TimeAccount::TimeAccount(std::function<double()> clock) : clock_(std::move(clock)) {}

Activity TimeAccount::turn_to(Activity activity) {
  const double now = clock_();
  spent_[static_cast<size_t>(now_)] += now - since_;
  since_ = now;
  return std::exchange(now_, activity);
}

nlohmann::json TimeAccount::seconds() {
  turn_to(now_);
  nlohmann::json seconds = {{"wall", std::accumulate(spent_.begin(), spent_.end(), 0.0)}};
  for (size_t i = 0; i < spent_.size(); ++i) seconds[names[i]] = spent_[i];
  return seconds;
}

std::string TimeAccount::summary() {
  turn_to(now_);
  const double wall = std::accumulate(spent_.begin(), spent_.end(), 0.0);
  std::array<size_t, 6> order{};
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return spent_[a] > spent_[b]; });
  std::string text = fmt::format("time: {:.1f} s", wall);
  const char* separator = ": ";
  for (const size_t i : order) {
    if (spent_[i] <= 0) continue;
    text += fmt::format("{}{} {:.1f} %", separator, names[i], 100 * spent_[i] / wall);
    separator = ", ";
  }
  return text;
}

}  // namespace example
