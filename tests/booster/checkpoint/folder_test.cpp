// A checkpoint's folder under kills, foreign folders and a disk that loses data.
#include "booster/checkpoint/folder/checkpoint.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/files/sha256.h"
#include "platform/threads.h"
#include "tests/booster/checkpoint/newest.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"
#include "tests/draws.h"
#include "tests/file_faults.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

CheckpointContents numbered(int64_t step, double number = 1, int64_t size = 8) {
  CheckpointContents c;
  c.step = step;
  c.model = {{"weight", full({size}, number)}};
  c.optimizer = {{"weight.exp_avg", full({size}, number)}};
  c.state = {{"number", number}};
  return c;
}

// Returns the number in the newest checkpoint, or -1; checks that its parts belong together.
double newest_number(const std::filesystem::path& root) {
  const auto folder = latest_checkpoint(root, ignore_line);
  if (!folder) return -1;
  const CheckpointContents c = load_checkpoint(*folder);
  CHECK(c.model.at("weight").to_vector<float>()[0] == c.state.at("number"));
  CHECK(c.optimizer.at("weight.exp_avg").to_vector<float>()[0] == c.state.at("number"));
  return c.state.at("number");
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

struct NormalDisk {
  ~NormalDisk() {
    fail_file_operation(0, 0);
    forbid_exchange(false);
  }
};

}  // namespace

TEST_CASE("a kill at any operation of replacing a checkpoint leaves the old or the new one") {
  for (const bool swaps : {true, false}) {
    CAPTURE(swaps);
    const NormalDisk afterwards;
    bool finished = false;
    int old_ones = 0, new_ones = 0, asides = 0;
    for (int64_t n = 1; !finished; ++n) {
      CAPTURE(n);
      const TemporaryFolder root;
      save_checkpoint(root.path(), numbered(5, 1));
      const pid_t child = ::fork();
      if (child == 0) {
        kernels::set_thread_count(1);  // a fork has no other threads
        forbid_exchange(!swaps);
        fail_file_operation(n, 0);
        save_checkpoint(root.path(), numbered(5, 2));
        ::_exit(0);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      finished = WIFEXITED(status);
      const double number = newest_number(root.path());
      CHECK((number == 1 || number == 2));
      ++(number == 1 ? old_ones : new_ones);
      asides += !std::filesystem::exists(root / "step-000000005");
      save_checkpoint(root.path(), numbered(6, 3));
      CHECK(newest_number(root.path()) == 3);
      CHECK(names_in(root.path()) ==
            std::set<std::string>{"latest", "step-000000005", "step-000000006"});
    }
    CHECK(old_ones > 10);
    CHECK(new_ones > 0);
    CHECK(asides == (swaps ? 0 : 1));
  }
}

TEST_CASE("a failure at any operation of replacing a checkpoint leaves the old or the new one") {
  for (const bool swaps : {true, false}) {
    const NormalDisk afterwards;
    forbid_exchange(!swaps);
    for (int64_t n = 1;; ++n) {
      CAPTURE(n);
      const TemporaryFolder root;
      save_checkpoint(root.path(), numbered(5, 1));
      fail_file_operation(n, EIO);
      bool failed = false;
      try {
        save_checkpoint(root.path(), numbered(5, 2));
      } catch (const Error&) {
        failed = true;
      }
      fail_file_operation(0, 0);
      CHECK(newest_number(root.path()) > 0);
      CHECK(names_in(root.path()) == std::set<std::string>{"latest", "step-000000005"});
      if (!failed) break;
    }
  }
}

TEST_CASE("a new folder appears whole and unmarked, or not at all; an existing one stays") {
  const NormalDisk afterwards;
  for (const bool exists : {false, true})
    for (int64_t n = 1;; ++n) {
      CAPTURE(n);
      const TemporaryFolder root;
      bool failed = false, is_new = false;
      fail_file_operation(n, EIO);
      try {
        AtomicFolder folder(root / "net");
        FileWriter file(folder.path() / "file");
        file.write("new");
        file.close();
        if (exists) root.write("net/file", "mine");  // another program's, meanwhile
        is_new = folder.commit_new();
      } catch (const Error&) {
        failed = true;
      }
      fail_file_operation(0, 0);
      if (!failed) CHECK(is_new == !exists);
      const bool is_there = std::filesystem::exists(root / "net");
      CHECK(root.entries() == (is_there ? 1 : 0));
      if (is_there) CHECK(names_in(root / "net") == std::set<std::string>{"file"});
      if (is_there) CHECK(root.read("net/file") == (exists ? "mine" : "new"));
      if (!failed) break;
    }
}

namespace {

// Returns the names of checkpoints that are not whole.
std::string broken_checkpoints(const std::filesystem::path& root) {
  std::string broken;
  for (const std::string& name : names_in(root)) {
    if (!name.starts_with("step-") || name.size() != 14) continue;
    try {
      verify_checkpoint(root / name);
    } catch (const Error& error) {
      broken += fmt::format("{}: {}\n", name, error.what());
    }
  }
  return broken;
}

// Saves in a child, after `before` there and with `during` here; returns the child's status.
int save_in_child(
    const std::filesystem::path& root, const CheckpointContents& contents,
    const std::function<void()>& before, const std::function<void(pid_t)>& during = [](pid_t) {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    kernels::set_thread_count(1);  // a fork has no other threads
    before();
    save_checkpoint(root, contents, {.keep = 1});
    ::_exit(0);
  }
  during(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a kill while old checkpoints are removed leaves none of them half") {
  int half = 0;
  for (int trial = 0; trial < 3; ++trial) {
    const TemporaryFolder root;
    save_checkpoint(root.path(), numbered(1));
    // Many files in it make its removal long enough for a kill.
    const auto file = [&](int i) { return fmt::format("step-000000001/more-{}", i); };
    for (int i = 0; i < 4000; ++i) root.write(file(i), "");
    const auto in_removal = [&] {
      for (int i = 0; i < 4000; i += 40)
        if (!std::filesystem::exists(root / file(i))) return true;
      return false;
    };
    const auto kill_in_removal = [&](pid_t child) {
      while (!in_removal()) continue;
      ::kill(child, SIGKILL);
    };
    save_in_child(
        root.path(), numbered(2), [] {}, kill_in_removal);
    half += names_in(root.path()).size() > 2;
    CHECK(broken_checkpoints(root.path()) == "");
    save_checkpoint(root.path(), numbered(3), {.keep = 1});
    CHECK(names_in(root.path()) == std::set<std::string>{"latest", "step-000000003"});
  }
  MESSAGE(half << " of 3 kills came before the removal was over");
}

TEST_CASE("a kill at any operation of a save leaves whole checkpoints and nothing for ever") {
  for (const bool is_marked : {true, false}) {
    bool finished = false;
    for (int64_t n = 1; !finished; ++n) {
      CAPTURE(n);
      const TemporaryFolder root;
      save_checkpoint(root.path(), numbered(1));
      if (!is_marked) std::filesystem::remove(root / "step-000000001" / folder_mark);
      const int status =
          save_in_child(root.path(), numbered(2), [&] { fail_file_operation(n, 0); });
      finished = WIFEXITED(status);
      CHECK(broken_checkpoints(root.path()) == "");
      save_checkpoint(root.path(), numbered(3), {.keep = 1});
      CHECK(names_in(root.path()) == std::set<std::string>{"latest", "step-000000003"});
    }
  }
}

TEST_CASE("a power cut cannot take a temporary folder's mark and leave its files") {
  const NormalDisk afterwards;
  std::vector<std::string> operations;
  for (int64_t n = 1;; ++n) {
    const TemporaryFolder root;
    fail_file_operation(n, EIO);
    try {
      save_checkpoint(root.path(), numbered(1));
      break;
    } catch (const Error& error) {
      operations.push_back(error.what());
    }
  }
  const auto first = [&](const char* what, const char* name) {
    for (size_t i = 0; i < operations.size(); ++i)
      if (operations[i].find(what) != std::string::npos &&
          operations[i].substr(0, operations[i].find(": ")).ends_with(name))
        return i;
    return operations.size();
  };
  const auto is_temporary_synced = [](const std::string& text) {
    return text.find("cannot sync the folder") != std::string::npos &&
           text.find(".tmp-") != std::string::npos;
  };
  const size_t mark = first("cannot create", folder_mark);
  // Two threads write data, so which of their operations fails differs from run to run.
  const size_t data = std::min(first("cannot", ".part-0"), first("cannot", ".part-1"));
  REQUIRE(mark < data);
  REQUIRE(data < operations.size());
  CHECK(std::any_of(&operations[mark], &operations[data], is_temporary_synced));
}

TEST_CASE("a process killed at random moments always leaves what it last saved, or newer") {
  for (const unsigned trial : testing::draws(25)) {
    std::mt19937 random(trial);
    const bool swaps = trial % 2;
    CAPTURE(trial);
    const TemporaryFolder root;
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      kernels::set_thread_count(1);  // a fork has no other threads
      forbid_exchange(!swaps);
      for (int number = 1;; ++number) {  // every step is saved twice
        save_checkpoint(root.path(), numbered(number / 2, number, 1000));
        const char done = static_cast<char>(number);
        if (::write(ends[1], &done, 1) != 1) ::_exit(1);
      }
    }
    ::close(ends[1]);
    ::usleep(std::uniform_int_distribution<useconds_t>(1000, 120'000)(random));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    int acknowledged = 0;
    for (unsigned char done = 0; ::read(ends[0], &done, 1) == 1;) acknowledged = done;
    ::close(ends[0]);
    CHECK(newest_number(root.path()) >= (acknowledged ? acknowledged : -1));
  }
}

TEST_CASE("folders that are not ours stay, whatever they are called") {
  const TemporaryFolder root;
  const std::vector<std::string> own = {"step-000000009.tmp-0123abcd", "step-000000003",
                                        "step-000000004.aside", "step-000000009.aside"};
  for (const auto& name : own) root.write(name + "/notes.txt", "a user's own");
  for (int step = 8; step <= 10; ++step)
    save_checkpoint(root.path(), numbered(step, step), {.keep = 1});
  for (const auto& name : own) {
    CAPTURE(name);
    CHECK(root.read(name + "/notes.txt") == "a user's own");
  }
  CHECK(newest_number(root.path()) == 10);
  CHECK_FALSE(std::filesystem::exists(root / "step-000000008"));
}

TEST_CASE("a link to the newest checkpoint that cannot be set leaves nothing") {
  const TemporaryFolder root;
  root.write("latest/notes.txt", "a user's own");
  save_checkpoint(root.path(), numbered(1));
  CHECK(names_in(root.path()) == std::set<std::string>{"latest", "step-000000001"});
}

TEST_CASE("folders that a save creates are synced in their parents") {
  const NormalDisk afterwards;
  const TemporaryFolder folder;
  std::set<std::string> synced;
  for (int64_t n = 1;; ++n) {
    const auto root = folder / fmt::format("{}", n);
    fail_file_operation(n, EIO);
    try {
      save_checkpoint(root / "out/checkpoint", numbered(1));
      break;
    } catch (const Error& error) {
      const std::string text = error.what(), what = ": cannot sync the folder";
      if (text.find(what) != text.npos)
        synced.insert(std::filesystem::relative(text.substr(0, text.find(what)), root).string());
    }
  }
  CHECK(synced.count(".."));
  CHECK(synced.count("."));
  CHECK(synced.count("out"));
  CHECK(synced.count("out/checkpoint"));
}

// Returns the newest checkpoint of a process whose files are truncated after `delay`.
int newest_after_cut(const TemporaryFolder& root, std::chrono::microseconds delay) {
  const pid_t child = ::fork();
  if (child == 0) {
    kernels::set_thread_count(1);  // a fork has no other threads
    std::thread cutter([&] {
      std::this_thread::sleep_for(delay);
      for (const char* file : {"optimizer.safetensors", "model.safetensors"})
        if (::truncate((root / "step-000000002" / file).c_str(), 5000) != 0) ::_exit(9);
    });
    const auto newest = latest_checkpoint(root.path(), ignore_line);
    cutter.join();
    ::_exit(newest == root / "step-000000001" ? 1 : newest == root / "step-000000002" ? 2 : 8);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_CASE("a file that gets shorter while it is verified is an error, not a signal") {
  using Clock = std::chrono::steady_clock;
  const TemporaryFolder root;
  save_checkpoint(root.path(), numbered(1, 1));
  int cut_in_time = 0;
  for (int part = 0; part < 8; ++part) {
    save_checkpoint(root.path(), numbered(2, 2, 8 << 20));
    const auto start = Clock::now();
    CHECK(latest_checkpoint(root.path(), ignore_line) == root / "step-000000002");
    const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    const int newest = newest_after_cut(root, whole * part / 8);
    CAPTURE(part);
    CHECK((newest == 1 || newest == 2));
    cut_in_time += newest == 1;
  }
  CHECK(cut_in_time > 0);
}

TEST_CASE("a hash is of the bytes that were given, whatever the disk makes of them") {
  const TemporaryFolder folder;
  Sha256 hash;
  FileWriter file(folder / "x");
  file.hash_into(hash);
  file.write("abc");
  { std::ofstream(folder / "x", std::ios::in | std::ios::out) << "X"; }
  file.write("def");
  file.close();
  CHECK(folder.read("x") == "Xbcdef");
  CHECK(hash.digest() == sha256(std::as_bytes(std::span("abcdef", 6))));
  CHECK(file.written() == 6);
}
