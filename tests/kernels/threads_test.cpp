// The threads of loops and of oneDNN: of one runtime, and asleep when they wait long.
#include "kernels/system/threads.h"

#include "kernels/catalogue.h"
#include "tests/kernels/plain_tensor.h"

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

int64_t threads_here() {
  using Folder = std::filesystem::directory_iterator;
  return std::distance(Folder("/proc/self/task"), Folder());
}

Plain square(int64_t n) { return random(DType::f32, {n, n}, {n, 1}, 1); }

double processor_seconds() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

TEST_CASE("a loop has the threads that it is told, and products of oneDNN have the same ones") {
  const Plain a = square(512), b = square(512), out = square(512);
  std::thread([&] {
    set_thread_count(9);
    on({}).fill(out.view(), 0);
    const int64_t with_a_loop = threads_here();
    CHECK(with_a_loop >= 9);
    on({}).matmul(out.view(), a.view(), b.view(), 0);
    CHECK(threads_here() < with_a_loop + 8);  // of two runtimes each would have its 8
  }).join();
}

TEST_CASE("rank: waits" * doctest::skip()) {
  const Plain out = square(512);
  const double before = processor_seconds();
  for (int i = 0; i < 10; ++i) {
    on({}).fill(out.view(), i);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(processor_seconds() - before < 0.25);  // half of the time is one thread of two that spins
}

TEST_CASE("threads that wait long sleep, where the environment does not say otherwise") {
  const std::string here = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "env -u GOMP_SPINCOUNT -u KMP_BLOCKTIME -u OMP_WAIT_POLICY "
      "OMP_NUM_THREADS=2 '" +
      here + "' '-tc=rank: waits' --no-skip";
  CHECK(std::system(command.c_str()) == 0);
}
