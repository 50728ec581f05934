// The threads of the kernels' loops and of oneDNN share one OpenMP runtime, so that two
// runtimes never oversubscribe the cores. g++ brings libgomp, as oneDNN does. clang brings libomp,
// which defines libgomp's functions too. If it comes first among a program's libraries, as when
// clang links, oneDNN calls them there.
#include "platform/threads.h"

#include "platform/environment.h"
#include "platform/error.h"

#include <omp.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace booster::kernels {
namespace {

constexpr int most_threads = 4096;

thread_local bool has_chosen = false;

// Returns the processors that a process may use; 0 is the caller. Process 1 shows the processors of
// the container.
int usable_processors(pid_t process) {
  cpu_set_t mask;
  return sched_getaffinity(process, sizeof mask, &mask) == 0
             ? CPU_COUNT(&mask)
             : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int threads) {
  check(threads >= 1 && threads <= most_threads, "threads: out of range; got {}, want 1 to {}",
        threads, most_threads);
  omp_set_num_threads(threads);
  has_chosen = true;
}
ThreadCountScope::ThreadCountScope(int threads) : before_(thread_count()) {
  omp_set_num_threads(threads);
}
ThreadCountScope::~ThreadCountScope() { omp_set_num_threads(before_); }

void check_thread_setting() {
  check(thread_count() <= most_threads, "OMP_NUM_THREADS: out of range; got {}, want 1 to {}",
        thread_count(), most_threads);
}

int threads_of_share(int processes, int usable, int machine) {
  const int64_t wanted = int64_t{usable} * processes, on_each = (wanted + machine - 1) / machine;
  const int64_t share = usable / std::clamp<int64_t>(on_each, 1, processes);
  return static_cast<int>(std::max<int64_t>(1, share));
}

void share_processors(int processes) {
  if (processes <= 1 || has_chosen || environment::is_set("OMP_NUM_THREADS")) return;
  const int usable = usable_processors(0);
  set_thread_count(threads_of_share(processes, usable, std::max(usable, usable_processors(1))));
}

}  // namespace booster::kernels
