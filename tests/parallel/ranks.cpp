#include "tests/parallel/ranks.h"

#include "parallel/backends/backend.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>

namespace {

// On a busy machine the start of a few ranks may take minutes. Shorter than BOOSTER_TIMEOUT is by
// default, so that a test still tells what is noticed from what times out.
constexpr double least_patience = 300;

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

// Returns a port outside the range that the system gives to connections (32768 and above).
int free_port() {
  std::random_device random;
  for (;;) {
    const int port = std::uniform_int_distribution(15000, 31000)(random);
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool free = bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(file);
    if (free) return port;
  }
}

// Returns false if no test case has the name, or several: ranks could then run different ones.
bool ran_one(const std::string& output) {
  const std::string title = "[doctest] test cases:";
  const size_t at = output.rfind(title);
  return at == output.npos || std::stoi(output.substr(at + title.size())) == 1;
}

// For "2+1", ranks 0 and 1 are on machine 0, the others on machine 1.
int machine_of(int rank, const std::string& layout) {
  std::istringstream sizes(layout);
  int machine = 0;
  for (std::string size; std::getline(sizes, size, '+'); ++machine)
    if ((rank -= std::stoi(size)) < 0) return machine;
  return machine - 1;
}

}  // namespace

std::map<std::string, std::string> Connection::with(
    std::map<std::string, std::string> more) const {
  more.insert(environment.begin(), environment.end());
  return more;
}

bool has_backend(const std::string& name) {
  const auto names = booster::backend_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> free_backends() {
  std::vector<std::string> names = booster::backend_names();
  for (const char* other : {"mpi", "nccl", "shm+gloo"}) std::erase(names, other);
  return names;
}

std::vector<Connection> connections() {
  std::vector<Connection> all;
  bool has_gloo = false;
  for (const std::string& name : free_backends()) {
    all.push_back({name, {{"BOOSTER_BACKEND", name}}});
    has_gloo |= name == "gloo";
  }
  if (!has_gloo) return all;
  all.push_back({"gloo over a store", over_store().with({{"BOOSTER_BACKEND", "gloo"}})});
  all.push_back({"two machines", over_store().with({{"TEST_MACHINES", "2+2"}})});
  return all;
}

Connection over_store() {
  return {"store",
          {{"BOOSTER_RENDEZVOUS", "tcp://127.0.0.1:" + std::to_string(free_port())},
           {"BOOSTER_SECRET", "a secret for tests"}}};
}

Ranks::Ranks(const std::string& test_case, int size,
             const std::map<std::string, std::string>& environment) {
  // doctest treats a comma as a separator between names.
  if (test_case.find(',') != test_case.npos)
    throw std::runtime_error("a rank's test case must have no comma in its name: " + test_case);
  folder_ = "/dev/shm/booster-test-XXXXXX";
  if (!mkdtemp(folder_.data())) {
    folder_ = std::filesystem::temp_directory_path() / "booster-test-XXXXXX";
    if (!mkdtemp(folder_.data())) throw std::runtime_error("mkdtemp failed");
  }
  const std::string total = std::to_string(size);
  const auto store = over_store().environment;
  for (int rank = 0; rank < size; ++rank) {
    auto variables = environment;
    if (std::getenv("TEST_OVER_STORE")) variables.insert(store.begin(), store.end());
    if (const char* layout = std::getenv("TEST_MACHINES"))
      variables.insert({"TEST_MACHINES", layout});
    const std::string number = std::to_string(rank);
    variables.insert({{"RANK", number}, {"LOCAL_RANK", number}, {"WORLD_SIZE", total},
                      {"LOCAL_WORLD_SIZE", total}, {"TEST_FOLDER", folder_},
                      {"BOOSTER_RENDEZVOUS", folder_ + "/meet"}});
    if (const auto layout = variables.find("TEST_MACHINES"); layout != variables.end())
      variables["BOOSTER_MACHINE"] = std::to_string(machine_of(rank, layout->second));
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
  seconds = std::max(seconds, least_patience);
  if (const char* patience = std::getenv("TEST_PATIENCE")) seconds *= std::atof(patience);
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
  for (int i = 0; i < 150000 && !std::filesystem::exists(folder_ + "/" + name); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

std::string failures_over_mpi(const std::string& test_case, int size) {
  const bool is_built_in = has_backend("mpi");
  // In containers, processes may not read each other's memory, which Open MPI detects too late.
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  const std::string mpirun = "timeout -k 5 120 mpirun --allow-run-as-root --oversubscribe -np ";
  static const bool works = std::system((mpirun + "2 true >/dev/null 2>&1").c_str()) == 0;
  if (!is_built_in || !works) {
    std::fputs(works ? "MPI is not built in\n" : "no mpirun that works\n", stderr);
    return "";
  }
  std::string output = std::filesystem::temp_directory_path() / "booster-mpi-XXXXXX";
  close(mkstemp(output.data()));
  // Open MPI leaks, so AddressSanitizer must not check for leaks.
  const std::string command =
      "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" BOOSTER_BACKEND=mpi OMP_NUM_THREADS=1 " +
      mpirun + std::to_string(size) + " '" +
      std::filesystem::read_symlink("/proc/self/exe").string() + "' --no-skip --minimal -tc='" +
      test_case + "' >" + output + " 2>&1";
  const int code = std::system(command.c_str());
  std::ifstream file(output);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(output);
  return code == 0 ? "" : text + "(mpirun ended with " + std::to_string(code) + ")";
}

std::string test_folder() { return std::getenv("TEST_FOLDER"); }
void touch(const std::string& name) { std::ofstream(test_folder() + "/" + name); }

std::string failures(const std::vector<RankResult>& results) {
  std::string text;
  for (size_t rank = 0; rank < results.size(); ++rank)
    if (!results[rank].passed() || !ran_one(results[rank].output))
      text += "rank " + std::to_string(rank) + " ended with status " +
              std::to_string(results[rank].status) + ":\n" + results[rank].output;
  return text;
}

void run_ranks(const std::string& test_case, int size, double seconds) {
  CHECK(failures(Ranks(test_case, size).wait(seconds)) == "");
}
