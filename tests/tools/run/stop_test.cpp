// Signals: what counts as one stop request, which ranks get it, and how long they may take.
#include <doctest/doctest.h>

#include "examples/training/stop_signal.h"
#include "parallel/mesh.h"
#include "parallel/rendezvous/rank_notes.h"
#include "platform/error.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"
#include "tests/tools/run/run_tool.h"

#include <chrono>
#include <filesystem>
#include <random>

#include <sys/stat.h>

using namespace booster;
namespace fs = std::filesystem;

namespace {

std::string of_rank(const std::string& name) {
  return test_folder() + "/" + name + std::getenv("RANK");
}

void write_pid(const std::string& path) { std::ofstream(path) << getpid() << std::endl; }

pid_t pid_in(const std::string& path) {
  wait_for(path);
  return std::stoi(read_file(path));
}

}  // namespace

// On a stop signal, saves for TEST_SAVE_MS, then exits with 128 + the signal.
TEST_CASE("rank: saves when it is to stop" * doctest::skip()) {
  example::catch_stop_signals();
  write_pid(of_rank("up"));
  while (example::stop_signal() == 0) nap(5);
  std::ofstream(of_rank("saves")) << example::stop_signal() << std::endl;
  {
    const SavingNote note("a checkpoint");
    nap(std::atoi(std::getenv("TEST_SAVE_MS")));
  }
  std::ofstream(of_rank("saved")) << "yes" << std::endl;
  std::quick_exit(128 + example::stop_signal());
}

TEST_CASE("signals within a second are one request to stop, whoever sends them to whom") {
  const int signals[] = {SIGTERM, SIGINT, SIGHUP};
  for (const unsigned seed : testing::draws(44)) {
    std::mt19937 random(seed);
    const TemporaryFolder folder;
    Running tool(ranks_of(2, "rank: saves when it is to stop"), [&] {
      signal(SIGHUP, SIG_DFL);  // `nohup` ignores it
      setenv("TEST_FOLDER", folder.path().c_str(), 1);
      setenv("TEST_SAVE_MS", "900", 1);
    });
    const pid_t all[] = {tool.pid(), pid_in(folder / "up0"), pid_in(folder / "up1")};
    std::string sent;
    const auto start = std::chrono::steady_clock::now();
    for (int i = draw(random, 2, 6), who = 0; i > 0; --i, who = draw(random, 0, 2)) {
      const int number = signals[draw(random, 0, 2)];
      kill(all[who], number);
      sent += fmt::format("{} to {}; ", number, who);
      nap(draw(random, 0, 1) * draw(random, 0, 100));
    }
    const auto took = std::chrono::steady_clock::now() - start;
    const int code = tool.wait();
    if (took > std::chrono::milliseconds(700)) continue;  // a busy machine: perhaps two requests
    CAPTURE(sent);
    CAPTURE(tool.err());
    CHECK(folder.read("saved0") == "yes\n");
    CHECK(folder.read("saved1") == "yes\n");
    CHECK((code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGHUP));
  }
}

TEST_CASE("a signal that comes more than a second after the first ends a rank at once") {
  const TemporaryFolder folder;
  Running tool(ranks_of(2, "rank: saves when it is to stop"), [&] {
    setenv("TEST_FOLDER", folder.path().c_str(), 1);
    setenv("TEST_SAVE_MS", "20000", 1);
  });
  const pid_t one = pid_in(folder / "up0"), other = pid_in(folder / "up1");
  kill(one, SIGTERM);
  kill(other, SIGTERM);
  wait_for(folder / "saves0");
  wait_for(folder / "saves1");
  nap(1200);
  kill(one, SIGTERM);
  kill(other, SIGINT);
  const int code = tool.wait();  // code of the rank seen to end first
  CHECK((code == 128 + SIGTERM || code == 128 + SIGINT));
  CHECK(!fs::exists(folder / "saved0"));
  CHECK(!fs::exists(folder / "saved1"));
}

TEST_CASE("a second signal to the run tool, later than a second, kills the ranks at once") {
  const TemporaryFolder folder;
  Running tool(ranks_of(1, "rank: saves when it is to stop"), [&] {
    setenv("TEST_FOLDER", folder.path().c_str(), 1);
    setenv("TEST_SAVE_MS", "20000", 1);
  });
  pid_in(folder / "up0");
  kill(tool.pid(), SIGINT);
  wait_for(folder / "saves0");
  nap(1200);
  kill(tool.pid(), SIGINT);
  CHECK(tool.wait() == 128 + SIGKILL);
}

TEST_CASE("a closed terminal stops the ranks by SIGTERM, unless the tool was told to ignore that") {
  for (const bool ignored : {false, true}) {
    const TemporaryFolder folder;
    Running tool({"sh", "-c",
                  "cd \"$0\"; trap 'exit 44' TERM; echo > up; until [ -e go ]; do sleep 0.02; done",
                  folder.path()},
                 [&] { signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL); });
    wait_for(folder / "up");
    kill(tool.pid(), SIGHUP);
    nap(300);
    folder.write("go", "");
    CHECK(tool.wait() == (ignored ? 0 : 44));
  }
}

TEST_CASE("ranks get the grace that was asked for, and more while they say that they save") {
  const Words deaf = {"--grace", "1", "sh", "-c", "trap '' TERM; echo > \"$0/up\"; sleep 60"};
  const TemporaryFolder folder;
  Words args = deaf;
  args.push_back(folder.path());
  Running tool(args);
  wait_for(folder / "up");
  const auto start = std::chrono::steady_clock::now();
  kill(tool.pid(), SIGTERM);
  CHECK(tool.wait() == 128 + SIGKILL);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(seconds.count() > 0.9);
  CHECK(seconds.count() < 45);

  const TemporaryFolder saving;
  Running saver(ranks_of(2, "rank: saves when it is to stop", {"--grace=3"}), [&] {
    setenv("TEST_FOLDER", saving.path().c_str(), 1);
    setenv("TEST_SAVE_MS", "5000", 1);
  });
  for (const char* name : {"up0", "up1"}) pid_in(saving / name);
  kill(saver.pid(), SIGTERM);
  CHECK(saver.wait() == 128 + SIGTERM);
  CHECK(saving.read("saved0") == "yes\n");
  CHECK(saving.read("saved1") == "yes\n");
}

TEST_CASE("Ctrl-C ends a run at once whose ssh still waits for the other machine") {
  const TemporaryFolder folder;
  folder.write("ssh", "#!/bin/sh\necho > '" + (folder / "up").string() + "'\nexec sleep 60\n");
  fs::permissions(folder / "ssh", fs::perms::owner_all);
  const auto start = std::chrono::steady_clock::now();
  Running tool({"--host", "a,b", "true"}, [&] {
    setenv("PATH", (folder.path().string() + ":" + std::getenv("PATH")).c_str(), 1);
  });
  wait_for(folder / "up");
  kill(tool.pid(), SIGINT);
  CHECK(tool.wait() == 128 + SIGINT);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("rank: adds up for ever" * doctest::skip()) {
  const Group group = launch_from_env().group();
  write_pid(of_rank("up"));
  for (;; nap(1)) {
    std::vector<int64_t> ones = {1};
    group.all_reduce(ones);
  }
}

// A script has the name of its file, so this one counts as a launcher.
TEST_CASE("ranks end with the mpirun that started them, even if it is killed") {
  const TemporaryFolder folder;
  folder.write("mpirun",
               "#!/bin/sh\nfor rank in 0 1; do\n  RANK=$rank LOCAL_RANK=$rank \"$@\" &\n"
               "done > /dev/null 2>&1\nwait\n");
  fs::permissions(folder / "mpirun", fs::perms::owner_all);
  const std::string script = folder / "mpirun", program = fs::read_symlink("/proc/self/exe");
  const pid_t launcher = fork();
  if (launcher == 0) {
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) setenv(name, "2", 1);
    setenv("TEST_FOLDER", folder.path().c_str(), 1);
    setenv("BOOSTER_RENDEZVOUS", (folder / "meet").c_str(), 1);
    execl(script.c_str(), "mpirun", program.c_str(), "--test-case=rank: adds up for ever",
          "--no-skip", nullptr);
    _exit(127);
  }
  const std::vector<pid_t> ranks = {pid_in(folder / "up0"), pid_in(folder / "up1")};
  nap(200);
  CHECK(is_alive(ranks[0]));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  CHECK(all_gone(ranks));
  for (const pid_t rank : ranks) kill(rank, SIGKILL);
}

TEST_CASE("a run tool whose umask takes every permission leaves no folder") {
  Running tool({"true"}, [] {
    umask(0777);
    if (getuid() == 0 && setuid(65534) != 0) _exit(98);  // root needs no permissions
  });
  CHECK(tool.wait() == 0);
  for (const char* parent : {"/dev/shm", "/tmp"})
    for (const auto& entry : fs::directory_iterator(parent))
      CHECK_FALSE(
          entry.path().filename().string().starts_with(fmt::format("booster-run-{}-", tool.pid())));
}
