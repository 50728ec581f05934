// Runs a fuzz target without libFuzzer: on every file of its corpus, then for a second on random
// mutations. Each input may use 10 seconds of CPU time, and the process 2 GiB.
// usage: fuzz_TARGET [--seconds N] [--seed N] FILE_OR_FOLDER...
//
// Inputs run in a separate process. If it ends in any way, even by a stack overflow, the input is
// written to finding-TARGET in the current folder.
#include "tests/booster/temporary_folder.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

namespace {

namespace fs = std::filesystem;
using namespace booster;
using Clock = std::chrono::steady_clock;

constexpr unsigned most_waiting = 100;  // seconds, for an input that hangs without CPU use
constexpr rlim_t most_memory = rlim_t{2} << 30;
constexpr size_t fewest_files = 3;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // slower, and reserves far more address space than it uses
#else
constexpr bool sanitized = false;
#endif
constexpr time_t seconds_per_input = sanitized ? 60 : 10;

// What the process that runs the inputs reports to its parent.
struct Report {
  size_t inputs = 0, size = 0;
  char name[256] = {};
  uint8_t bytes[fuzz::Mutator::largest];
};

struct Input {
  std::string name, bytes;
};

struct Arguments {
  double seconds = 1;
  uint64_t seed = std::random_device()();
  std::vector<Input> corpus;
};

void add_file(const fs::path& path, std::vector<Input>& corpus) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  check(file.good(), "fuzz: {}: cannot be read", path.string());
  check(bytes.size() <= fuzz::Mutator::largest, "fuzz: {}: too large; want at most {} bytes",
        path.string(), fuzz::Mutator::largest);
  corpus.push_back({path.string(), std::move(bytes)});
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--seconds") arguments.seconds = std::strtod(value, nullptr);
    if (word == "--seed") arguments.seed = std::strtoull(value, nullptr, 10);
    if (word == "--seconds" || word == "--seed") ++i;
    else if (!fs::is_directory(word)) add_file(word, arguments.corpus);
    else
      for (const auto& entry : fs::directory_iterator(word)) add_file(entry, arguments.corpus);
  }
  check(arguments.corpus.size() >= fewest_files, "fuzz: hardly any corpus; got {} files",
        arguments.corpus.size());
  std::sort(arguments.corpus.begin(), arguments.corpus.end(),
            [](const Input& a, const Input& b) { return a.name < b.name; });
  return arguments;
}

// Limits this process's time; 0 is no limit.
void limit_time(time_t seconds) {
  const itimerval timer = {.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(seconds == 0 ? 0 : most_waiting);
}

void run(Report& report, const Input& input) {
  ++report.inputs;
  report.size = input.bytes.size();
  std::memcpy(report.bytes, input.bytes.data(), input.bytes.size());
  std::strncpy(report.name, input.name.c_str(), sizeof report.name - 1);
  // Allocates exactly this size, so that AddressSanitizer detects reads beyond it.
  const auto copy = std::make_unique_for_overwrite<uint8_t[]>(input.bytes.size());
  std::memcpy(copy.get(), input.bytes.data(), input.bytes.size());
  limit_time(seconds_per_input);
  LLVMFuzzerTestOneInput(copy.get(), input.bytes.size());
  limit_time(0);
}

[[noreturn]] void run_all(const Arguments& arguments, Report& report) {
  rlimit memory = {most_memory, most_memory};
  if (!sanitized) setrlimit(RLIMIT_AS, &memory);
  std::vector<std::string> inputs;
  for (const Input& input : arguments.corpus) {
    run(report, input);
    inputs.push_back(input.bytes);
  }
  fuzz::Mutator mutator(inputs, arguments.seed);
  const auto end = Clock::now() + std::chrono::duration<double>(arguments.seconds);
  while (Clock::now() < end) run(report, {"a changed input", mutator.next()});
  std::_Exit(0);  // statics of a target may hold processes and threads
}

std::string reason(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGPROF)
    return fmt::format("more than {} seconds of a core", seconds_per_input);
  if (WTERMSIG(status) == SIGALRM) return fmt::format("more than {} seconds", most_waiting);
  return strsignal(WTERMSIG(status));
}

int tell(const std::string& target, const Arguments& arguments, const Report& report, int status) {
  fmt::print("{}: {} files and {} changed inputs (--seed {})\n", target, arguments.corpus.size(),
             report.inputs - std::min(report.inputs, arguments.corpus.size()), arguments.seed);
  if (status == 0 && report.inputs >= arguments.corpus.size()) return 0;
  const fs::path finding = fs::absolute("finding-" + target);
  std::ofstream(finding, std::ios::binary)
      << std::string_view(reinterpret_cast<const char*>(report.bytes), report.size);
  fmt::print("{}: {}: {}; {} bytes, now in {}\n", target, report.name, reason(status), report.size,
             finding.string());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = read_arguments(argc, argv);
    const TemporaryFolder folder;
    setenv("TMPDIR", folder.path().c_str(), 1);
    void* shared = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED, "fuzz: no memory to share");
    auto* report = new (shared) Report;
    const pid_t child = fork();
    if (child == 0) run_all(arguments, *report);
    int status = -1;
    check(child > 0 && waitpid(child, &status, 0) == child, "fuzz: cannot start a process");
    return tell(fs::path(argv[0]).filename(), arguments, *report, status);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
