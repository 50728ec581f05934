// The threads of the kernels' loops and of oneDNN: one libgomp team for both, so that cores are
// never oversubscribed by two runtimes.
#include "kernels/system/threads.h"

#include "kernels/system/error.h"

#include <omp.h>

#include <cstdlib>
#include <mutex>
#include <thread>

#include <unistd.h>

namespace booster::kernels {
namespace {

bool user_decides() { return std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY"); }

void rest_forever() {
  omp_set_num_threads(2);
#pragma omp parallel
  {}
  while (true) ::pause();
}

}  // namespace

void shorten_waiting() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!user_decides() && omp_get_max_threads() > 1) std::thread(rest_forever).detach();
  });
}

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int threads) {
  check(threads >= 1 && threads <= 4096, "threads: out of range; got {}, want 1 to 4096", threads);
  omp_set_num_threads(threads);
}

}  // namespace booster::kernels
