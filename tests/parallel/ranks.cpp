#include "tests/parallel/ranks.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace {

std::string output_file(const std::string& folder, size_t rank) {
  return folder + "/output-" + std::to_string(rank);
}

[[noreturn]] void become_rank(const std::string& test_case, const std::string& output,
                              const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, 1);
  dup2(file, 2);
  const std::string filter = "--test-case=" + test_case;
  execl("/proc/self/exe", "parallel_test", filter.c_str(), "--no-skip", nullptr);
  _exit(127);
}

// No test case has the name.
bool ran_nothing(const std::string& output) {
  const std::string title = "[doctest] test cases:";
  const size_t at = output.rfind(title);
  return at != output.npos && std::stoi(output.substr(at + title.size())) == 0;
}

}  // namespace

Ranks::Ranks(const std::string& test_case, int size,
             const std::map<std::string, std::string>& environment) {
  // doctest takes what is between commas for names of their own.
  if (test_case.find(',') != test_case.npos)
    throw std::runtime_error("a rank's test case must have no comma in its name: " + test_case);
  folder_ = "/dev/shm/booster-test-XXXXXX";
  if (!mkdtemp(folder_.data())) {
    folder_ = std::filesystem::temp_directory_path() / "booster-test-XXXXXX";
    if (!mkdtemp(folder_.data())) throw std::runtime_error("mkdtemp failed");
  }
  const std::string total = std::to_string(size);
  for (int rank = 0; rank < size; ++rank) {
    auto variables = environment;
    for (const char* name : {"RANK", "LOCAL_RANK"}) variables[name] = std::to_string(rank);
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) variables[name] = total;
    variables["BOOSTER_RENDEZVOUS"] = folder_ + "/meet";
    variables["TEST_FOLDER"] = folder_;
    const pid_t pid = fork();
    if (pid == 0) become_rank(test_case, output_file(folder_, rank), variables);
    pids_.push_back(pid);
  }
}

Ranks::~Ranks() {
  for (pid_t pid : pids_)
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  std::filesystem::remove_all(folder_);
}

std::vector<RankResult> Ranks::wait(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<RankResult> results;
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    int status = 0;
    while (waitpid(pids_[rank], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) kill(pids_[rank], SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    pids_[rank] = -1;
    std::ifstream file(output_file(folder_, rank));
    results.push_back({status, {std::istreambuf_iterator<char>(file), {}}});
  }
  return results;
}

void Ranks::wait_for_file(const std::string& name) const {
  for (int i = 0; i < 30000 && !std::filesystem::exists(folder_ + "/" + name); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

std::string failures(const std::vector<RankResult>& results) {
  std::string text;
  for (size_t rank = 0; rank < results.size(); ++rank)
    if (!results[rank].passed() || ran_nothing(results[rank].output))
      text += "rank " + std::to_string(rank) + " ended with status " +
              std::to_string(results[rank].status) + ":\n" + results[rank].output;
  return text;
}
