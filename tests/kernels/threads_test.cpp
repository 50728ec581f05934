// The threads of loops and of oneDNN belong to one runtime. They sleep if they wait long or if
// other threads need their processors.
#include "platform/threads.h"

#include "kernels/catalogue.h"
#include "platform/waiting.h"
#include "tests/draws.h"
#include "tests/kernels/plain_tensor.h"

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

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
    CHECK(threads_here() < with_a_loop + 8);  // two runtimes would have 8 threads each
  }).join();
}

TEST_CASE("rank: waits" * doctest::skip()) {
  const Plain out = square(512);
  const double before = processor_seconds();
  for (int i = 0; i < 10; ++i) {
    on({}).fill(out.view(), i);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(processor_seconds() - before < 0.25);  // half the time is one spinning thread of two
}

TEST_CASE("rank: waits in a crowd" * doctest::skip()) {
  const Plain out = square(512);
  std::atomic<bool> has_ended = false;
  std::vector<std::thread> crowd;
  for (int i = 0; i < 8; ++i)
    crowd.emplace_back([&] {
      while (!has_ended) {
      }
    });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!waiting_sleeps() && std::chrono::steady_clock::now() < end) on({}).fill(out.view(), 1);
  CHECK(waiting_sleeps());
  has_ended = true;
  for (std::thread& one : crowd) one.join();
}

void check_elsewhere(const std::string& test) {
  const std::string here = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "env -u GOMP_SPINCOUNT -u KMP_BLOCKTIME -u OMP_WAIT_POLICY "
      "OMP_NUM_THREADS=2 '" +
      here + "' '-tc=" + test + "' --no-skip";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("threads that wait long sleep, where the environment does not say otherwise") {
  check_elsewhere("rank: waits");
}

#ifndef __clang__  // libomp's wait policy cannot be changed later
TEST_CASE("threads that wait sleep at once while others want their processors") {
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) {
    MESSAGE("skipped: this Linux does not say how long a thread stands in line");
    return;
  }
  check_elsewhere("rank: waits in a crowd");
}
#endif

TEST_CASE("a machine is crowded from the first long line on, until lines stay short for a while") {
  // Compares with a model that remembers the whole history, on random histories.
  for (const unsigned round : testing::draws(200)) {
    std::mt19937 draw(round);
    Crowding crowding;
    std::vector<double> shares;  // of whole windows
    int64_t now = 1'000'000'000, delayed = static_cast<int64_t>(draw() % 1000), began = 0,
            before = 0;
    for (int i = 0; i < 60; ++i) {
      const int64_t step = Crowding::window / 4 * static_cast<int64_t>(1 + draw() % 6);
      const double share = std::array{0.0, 0.01, 0.1, 0.2, 0.9}[draw() % 5];
      now += step;
      delayed += static_cast<int64_t>(share * static_cast<double>(step));
      if (began == 0 || now - began >= Crowding::window) {
        if (began)
          shares.push_back(static_cast<double>(delayed - before) /
                           static_cast<double>(now - began));
        began = now;
        before = delayed;
      }
      bool wanted = false;
      int calm = 0;
      for (const double one : shares) {
        calm = one > 0.15 ? 0 : one < 0.05 ? calm + 1 : calm;
        wanted = one > 0.15 || (wanted && calm < 5);
      }
      REQUIRE(crowding.seen(now, delayed) == wanted);
    }
  }
}
