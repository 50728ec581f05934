#include "platform/waiting.h"

#include "platform/blocked_signals.h"
#include "platform/environment.h"

#include <omp.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace booster::kernels {
namespace {

bool environment_decides() {
  return environment::is_set("GOMP_SPINCOUNT") || environment::is_set("KMP_BLOCKTIME") ||
         environment::is_set("OMP_WAIT_POLICY");
}

}  // namespace

bool Crowding::seen(int64_t now, int64_t delayed) {
  if (!due(now)) return calm_ < calm_windows;
  const double share = static_cast<double>(delayed - delayed_) / static_cast<double>(now - began_);
  const bool is_first = began_ == 0;
  began_ = now;
  delayed_ = delayed;
  if (is_first) return false;
  if (share > crowded_share)
    calm_ = 0;
  else if (share < calm_share)
    calm_ = std::min(calm_ + 1, calm_windows);
  return calm_ < calm_windows;
}

#ifdef KMP_VERSION_MAJOR  // libomp

void adapt_waiting() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (environment_decides()) return;
    kmp_set_defaults("KMP_BLOCKTIME=3");
    kmp_set_blocktime(3);  // for this thread's team, if it has one already
  });
}

bool waiting_sleeps() { return false; }

#else  // libgomp

namespace {

// While it lives, libgomp counts more threads than processors, so its threads spin for 1000 turns
// instead of 300,000. It reads its own settings only once, before the program begins. A sleeping
// team is the only way to change its behaviour later.
class RestingTeam {
 public:
  explicit RestingTeam(int threads) {
    const BlockedSignals blocked;
    std::thread([state = state_, threads] {
#pragma omp parallel num_threads(threads)
      {
        std::unique_lock lock(state->mutex);
        state->ended.wait(lock, [&] { return state->has_ended; });
      }
    }).detach();  // the program may end without it
  }
  ~RestingTeam() {
    const std::lock_guard lock(state_->mutex);
    state_->has_ended = true;
    state_->ended.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    bool has_ended = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

int64_t now_coarse() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Returns how long the calling thread has queued for a processor, in ns: the second number of the
// file. -1 if there is no such file.
int64_t delay_so_far() {
  const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char text[96];
  const auto size = ::read(file, text, sizeof text);
  ::close(file);
  const std::string_view words(text, static_cast<size_t>(std::max<ssize_t>(0, size)));
  const size_t space = words.find(' ');
  int64_t delay = -1;
  if (space != words.npos)
    std::from_chars(words.data() + space + 1, words.data() + words.size(), delay);
  return delay;
}

// Returns how many sleeping threads give the process more threads than processors.
int resting_threads() { return std::max(2, omp_get_num_procs() - omp_get_max_threads() + 2); }

// The number of threads that queue for a processor, and the team that sleeps while there are any.
std::mutex crowded_mutex;
int crowded_threads = 0;
// Never destroyed: threads may still compute when the program ends.
auto& resting_team = *new std::unique_ptr<RestingTeam>;

void count_crowded(int more) {
  const std::lock_guard lock(crowded_mutex);
  crowded_threads += more;
  if (crowded_threads == 0) return resting_team.reset();
  if (resting_team) return;
  try {
    resting_team = std::make_unique<RestingTeam>(resting_threads());
  } catch (const std::system_error&) {  // no threads left: waiting threads keep spinning
  }
}

// The state of one computing thread.
struct Watch {
  Crowding crowding;
  bool is_crowded = false;

  void look(int64_t now) {
    const int64_t delay = delay_so_far();
    if (delay < 0) return;
    const bool was = std::exchange(is_crowded, crowding.seen(now, delay));
    if (is_crowded != was) count_crowded(is_crowded ? 1 : -1);
  }
  ~Watch() {
    if (is_crowded) count_crowded(-1);
  }
};

}  // namespace

void adapt_waiting() {
  thread_local Watch watch;
  const int64_t now = now_coarse();
  if (!watch.crowding.due(now)) [[likely]]
    return;
  static const bool is_decided = environment_decides();
  if (!is_decided && omp_get_max_threads() > 1) watch.look(now);
}

bool waiting_sleeps() {
  const std::lock_guard lock(crowded_mutex);
  return !!resting_team;
}

#endif

}  // namespace booster::kernels
