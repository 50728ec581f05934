// The run tool in a separate process, and what a test checks about it.
#pragma once

#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"
#include "tools/run/run.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

using Words = std::vector<std::string>;

// Returns the tool's arguments: `options`, and a test case of this program as the program to run.
inline Words ranks_of(int count, const std::string& test_case, Words options = {}) {
  options.insert(options.end(), {"--nproc_per_node", std::to_string(count), "/proc/self/exe",
                                 "--test-case=" + test_case, "--no-skip"});
  return options;
}

inline void nap(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

inline int draw(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution(low, high)(random);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Running {
 public:
  // `prepare` runs in the process before the tool does.
  explicit Running(const Words& args, const std::function<void()>& prepare = [] {}) {
    fflush(stdout);  // or the child would write it again
    pid_ = fork();
    if (pid_ != 0) return;
    for (const char* name : {"OMP_NUM_THREADS", "RANK", "WORLD_SIZE"}) unsetenv(name);
    if (!freopen((folder_ / "out").c_str(), "w", stdout) ||
        !freopen((folder_ / "err").c_str(), "w", stderr))
      _exit(99);
    prepare();
    const int code = booster::run_tool(args);
    fflush(stdout);
    fflush(stderr);
    _exit(code);
  }
  pid_t pid() const { return pid_; }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  std::string out() const { return read_file(folder_ / "out"); }
  std::string err() const { return read_file(folder_ / "err"); }

 private:
  const booster::TemporaryFolder folder_;
  pid_t pid_;
};

struct Ended {
  int code;
  std::string out, err;
  double seconds;
};
inline Ended run(const Words& args, const std::function<void()>& prepare = [] {}) {
  const auto start = std::chrono::steady_clock::now();
  Running running(args, prepare);
  const int code = running.wait();
  return {code, running.out(), running.err(),
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

// Waits until the file exists and is not empty; gives up after 60 seconds.
inline void wait_for(const std::string& path) {
  for (int i = 0; i < 30000 && read_file(path).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

inline bool is_alive(pid_t pid) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/stat");
  return !status.empty() && !booster::contains(status, ") Z");
}

// Returns true once none of the processes is alive; gives up after 30 seconds.
inline bool all_gone(const std::vector<pid_t>& pids) {
  for (int i = 0; i < 3000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    if (std::none_of(pids.begin(), pids.end(), is_alive)) return true;
  return false;
}
