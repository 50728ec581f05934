#include "tests/parallel/by_hand.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

// Returns a port that no other test on this machine is likely to draw.
std::string random_port() {
  static std::mt19937 random{std::random_device()()};
  return std::to_string(std::uniform_int_distribution(20000, 65535)(random));
}

}  // namespace

ByHand::ByHand(std::string test_case) : test_case_(std::move(test_case)), port_(random_port()) {
  const std::string memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  meeting_place_ =
      memory + "/booster-" + std::to_string(geteuid()) + "-torchrun-127-0-0-1-" + port_ + "--";
}

ByHand::~ByHand() {
  for (const pid_t pid : pids_)
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  std::filesystem::remove_all(meeting_place_);
}

void ByHand::start(const Rank& rank) {
  std::vector<std::string> words = {"parallel_test", "--test-case=" + test_case_, "--no-skip"};
  words.insert(words.end(), rank.arguments.begin(), rank.arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string output = folder_ / std::to_string(pids_.size());
  const pid_t pid = fork();
  if (pid != 0) return pids_.push_back(pid);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, 1);
  dup2(file, 2);
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "BOOSTER_RENDEZVOUS", "BOOSTER_JOB"})
    unsetenv(name);
  setenv("RANK", std::to_string(rank.rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(rank.size).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port_.c_str(), 1);
  for (const auto& [name, value] : rank.environment) setenv(name.c_str(), value.c_str(), 1);
  usleep(static_cast<useconds_t>(rank.delay_ms) * 1000);
  execv("/proc/self/exe", pointers.data());
  _exit(127);
}

RankResult ByHand::wait_for(size_t index, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (waitpid(pids_[index], &status, WNOHANG) == 0) {
    if (Clock::now() > end) kill(pids_[index], SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pids_[index] = -1;
  std::ifstream file(folder_ / std::to_string(index));
  return {status, {std::istreambuf_iterator<char>(file), {}}};
}

std::vector<RankResult> ByHand::wait(double seconds) {
  std::vector<RankResult> results;
  for (size_t i = 0; i < pids_.size(); ++i) results.push_back(wait_for(i, seconds));
  return results;
}
