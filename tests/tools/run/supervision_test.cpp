// The run tool when things go wrong: which rank it names, what continues, and what remains.
#include <doctest/doctest.h>

#include "parallel/mesh.h"
#include "parallel/rendezvous/rank_notes.h"
#include "platform/error.h"
#include "platform/warn.h"
#include "tests/draws.h"
#include "tests/parallel/by_hand.h"
#include "tests/tools/run/run_tool.h"
#include "tools/run/hang_report.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <sstream>

using namespace booster;
namespace fs = std::filesystem;

namespace {

int number_of(const char* name) { return std::atoi(std::getenv(name)); }

struct Pipe {
  int reading, writing;
  Pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    reading = ends[0], writing = ends[1];
  }
};

// Returns this tool's folders in memory.
std::string left_by(pid_t tool) {
  std::string left;
  for (const auto& entry : fs::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().starts_with(fmt::format("booster-run-{}-", tool)))
      left += entry.path().string() + " ";
  return left;
}

}  // namespace

// TEST_VICTIM ends as in TEST_HOW after some collectives; the others print what they see.
TEST_CASE("rank: one fails" * doctest::skip()) {
  const World world = launch_from_env();
  std::vector<float> data(3000, 1);
  const std::string how = std::getenv("TEST_HOW");
  try {
    auto group = std::make_unique<Group>(world.place, world.rank, world.size);
    for (int i = 0;; ++i) {
      group->all_reduce(data, CollectiveOp::mean);
      if (world.rank != number_of("TEST_VICTIM") || i < number_of("TEST_STEPS")) continue;
      if (how == "late") group.reset();  // the others notice before this process ends
      if (how == "late") nap(200);
      if (how == "kill") raise(SIGKILL);
      if (how == "abort") abort();
      std::quick_exit(how == "well" ? 0 : 7);
    }
  } catch (const Error& error) {
    fmt::print("saw: {}\n", error.what());
    fflush(stdout);
    nap(number_of("TEST_LATENCY_MS") * (world.rank % 2));
    std::quick_exit(1);
  }
}

TEST_CASE("the failure summary names the rank that failed, not one that saw it fail") {
  const char* const hows[] = {"exit", "kill", "abort", "late", "well"};
  for (const unsigned seed : testing::draws(55)) {
    std::mt19937 random(seed);
    const int victim = draw(random, 0, 2);
    const std::string how = hows[seed % 5];
    const auto ended = run(ranks_of(3, "rank: one fails"), [&] {
      setenv("TEST_VICTIM", std::to_string(victim).c_str(), 1);
      setenv("TEST_HOW", how.c_str(), 1);
      setenv("TEST_STEPS", std::to_string(draw(random, 0, 300)).c_str(), 1);
      setenv("TEST_LATENCY_MS", std::to_string(draw(random, 0, 40)).c_str(), 1);
    });
    CAPTURE(how);
    CAPTURE(victim);
    CAPTURE(ended.err);
    const std::string culprit = fmt::format("rank {} (pid ", victim);
    if (how == "well") {  // only the ranks that needed it failed
      CHECK(ended.code == 1);
      CHECK(contains(ended.err.substr(ended.err.find("its last lines")), culprit));
      continue;
    }
    CHECK(contains(ended.err, "booster run: " + culprit));
    CHECK(ended.code == (how == "kill" ? 128 + SIGKILL : how == "abort" ? 128 + SIGABRT : 7));
  }
}

// Rank 1 reaches the second barrier late.
TEST_CASE("rank: one comes late" * doctest::skip()) {
  const Group group = launch_from_env().group();
  group.barrier();
  const std::string why = std::getenv("TEST_WHY") ? std::getenv("TEST_WHY") : "";
  std::optional<SavingNote> note;
  if (contains(why, "saves") && group.rank() == 1) note.emplace("a checkpoint\x1b");
  if (group.rank() == 1) contains(why, "is stopped") ? void(raise(SIGSTOP)) : nap(3000);
  group.barrier();
}

TEST_CASE("a rank that others wait for is named while they wait, each time after twice as long") {
  for (const char* backend : {"shm", "gloo"}) {
    const auto ended = run(ranks_of(3, "rank: one comes late"), [&] {
      setenv("BOOSTER_SLOW_WAIT", "0.3", 1);
      setenv("BOOSTER_BACKEND", backend, 1);
    });
    CAPTURE(ended.err);
    CHECK(ended.code == 0);
    const std::string told = " has not arrived at barrier (call 2) for ";
    CHECK(contains(ended.err, "booster run: rank 1 (pid "));
    CHECK(contains(ended.err, told));
    CHECK(contains(ended.err, " s; rank 0, rank 2 wait for it\n"));
    int times = 0;
    for (size_t at = 0; (at = ended.err.find(told, at)) != std::string::npos; ++at) ++times;
    CHECK(times >= 2);
    CHECK(times <= 5);
  }
}

TEST_CASE("what is known of a rank that others wait for is told: it saves, it is stopped") {
  const std::string saves = run(ranks_of(2, "rank: one comes late"), [] {
                              setenv("BOOSTER_SLOW_WAIT", "0.3", 1);
                              setenv("TEST_WHY", "saves", 1);
                            }).err;
  CHECK(contains(saves, "; rank 0 waits for it (rank 1 saves a checkpoint\\x1b)\n"));
  Running tool(ranks_of(2, "rank: one comes late"), [] {
    setenv("BOOSTER_SLOW_WAIT", "0.3", 1);
    setenv("TEST_WHY", "is stopped", 1);
  });
  const std::string told = "; rank 0 waits for it (rank 1 is stopped by a signal)\n";
  for (int i = 0; i < 3000 && !contains(tool.err(), told); ++i) nap(10);
  CHECK(contains(tool.err(), told));
  const std::string before = "booster run: rank 1 (pid ";
  kill(std::stoi(tool.err().substr(tool.err().find(before) + before.size())), SIGCONT);
  CHECK(tool.wait() == 0);
}

TEST_CASE("a rank that was stopped while it saved is not waited for") {
  Running tool(ranks_of(2, "rank: one comes late", {"--grace=1"}), [] {
    setenv("BOOSTER_SLOW_WAIT", "0.3", 1);
    setenv("TEST_WHY", "saves, is stopped", 1);
  });
  for (int i = 0; i < 3000 && !contains(tool.err(), "is stopped by a signal"); ++i) nap(10);
  const auto start = std::chrono::steady_clock::now();
  kill(tool.pid(), SIGTERM);
  CHECK(tool.wait() != 0);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

// Notes are files with untrusted content.
TEST_CASE("a hang report takes any notes, and its text cannot steer a terminal") {
  for (const unsigned seed : testing::draws(5500)) {
    std::mt19937 random(seed);
    std::map<std::string, LongWait> waits;
    for (int rank = draw(random, 1, 3); rank >= 0; --rank) {
      std::string note(draw(random, 0, 30), '\0');
      for (char& c : note) c = "\n\n\x1b" "rank 01(9e.-\xff"[draw(random, 0, 15)];
      waits["rank " + std::to_string(rank)] = LongWait::from(note);
    }
    HangReport report;
    report.due(waits, {});
    for (const char c : report.due(waits, {{"rank 0", "saves"}}))
      CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST_CASE("without a run tool those that wait name the rank themselves") {
  ByHand ranks("rank: one comes late");
  for (const int rank : {0, 1})
    ranks.start({.rank = rank, .size = 2, .environment = {{"BOOSTER_SLOW_WAIT", "0.3"}}});
  const auto results = ranks.wait();
  CHECK(failures(results) == "");
  CAPTURE(results[0].output);
  CHECK(contains(results[0].output, "booster: rank 1 (pid "));
  CHECK(contains(results[0].output, " has not arrived at barrier (call 2) for "));
  CHECK(contains(results[0].output, "; rank 0 waits for it, at most 600 s (BOOSTER_TIMEOUT)\n"));
  CHECK(!contains(results[1].output, "has not arrived"));
}

TEST_CASE("a reader that does not read holds up output, not supervision") {
  const Pipe output;
  const TemporaryFolder folder;
  Running tool({"--nproc_per_node", "2", "sh", "-c",
                "cd \"$0\"; echo $$ > pid$RANK; [ $RANK != 0 ] || exec yes 1234567; "
                "until [ -e go ]; do sleep 0.02; done; exit 5",
                folder.path()},
               [&] { dup2(output.writing, STDOUT_FILENO); });
  close(output.writing);
  wait_for(folder / "pid0");
  const pid_t printer = std::stoi(folder.read("pid0"));
  nap(500);
  folder.write("go", "");
  for (int i = 0; i < 1000 && is_alive(printer); ++i) nap(10);
  CHECK(!is_alive(printer));
  char bytes[1 << 16];
  while (read(output.reading, bytes, sizeof bytes) > 0) {
  }
  CHECK(tool.wait() == 5);
  CHECK(contains(tool.err(), "booster run: rank 1 (pid "));
}

TEST_CASE("a rank that is to stop can say so although nobody reads") {
  const Pipe output;
  const TemporaryFolder folder;
  Running tool({"--nproc_per_node", "2", "sh", "-c",
                "cd \"$0\"; trap 'head -c 9000000 /dev/zero | tr \"\\0\" \"\\n\"; echo yes > "
                "saved$RANK; exit 0' TERM; echo > up$RANK; while :; do sleep 0.02; done",
                folder.path()},
               [&] { dup2(output.writing, STDOUT_FILENO); });
  close(output.writing);
  for (const char* name : {"up0", "up1"}) wait_for(folder / name);
  kill(tool.pid(), SIGTERM);
  CHECK(tool.wait() == 0);
  CHECK(folder.read("saved0") == "yes\n");
  CHECK(folder.read("saved1") == "yes\n");
  close(output.reading);
}

TEST_CASE("output that cannot be written is dropped and that is told; the ranks go on") {
  const auto full = run({"--nproc_per_node", "2", "sh", "-c", "echo one; sleep 0.2; echo two"},
                        [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); });
  CHECK(full.code == 0);
  CHECK(full.err ==
        "booster run: standard output: cannot be written: No space left on device; dropping it, "
        "the ranks continue\n");
  const TemporaryFolder folder;
  const auto log = run({"--log_dir", folder.path(), "sh", "-c", "yes | head -c 200000; exit 0"},
                       [] {
                         signal(SIGXFSZ, SIG_IGN);
                         const rlimit limit = {100000, 100000};
                         setrlimit(RLIMIT_FSIZE, &limit);
                       });
  CHECK(log.code == 0);
  CHECK(contains(log.out + log.err,
                 "rank-0.log: File too large; the log ends here, the ranks continue"));
}

TEST_CASE("the death of the process that guards the ranks fails nothing and leaves nothing") {
  const TemporaryFolder folder;
  Running tool({"--nproc_per_node", "2", "sh", "-c",
                "cd \"$0\"; echo > up$RANK; until [ -e go ]; do sleep 0.02; done",
                folder.path()});
  for (const char* name : {"up0", "up1"}) wait_for(folder / name);
  const std::string children =
      read_file(fmt::format("/proc/{0}/task/{0}/children", tool.pid()));
  kill(std::stoi(children), SIGKILL);  // the first child
  nap(100);
  CHECK(left_by(tool.pid()) != "");
  folder.write("go", "");
  CHECK(tool.wait() == 0);
  CHECK(contains(tool.err(), "the process that guards the ranks has died"));
  CHECK(left_by(tool.pid()) == "");
}

TEST_CASE("the number of a rank that has ended goes to nobody else while the run lasts") {
  const TemporaryFolder folder;
  Running tool({"--nproc_per_node", "2", "sh", "-c",
                "cd \"$0\"; echo $$ > pid$RANK; [ $RANK = 0 ] || until [ -e go ]; do sleep 0.02; "
                "done",
                folder.path()});
  for (const char* name : {"pid0", "pid1"}) wait_for(folder / name);
  const std::string status = "/proc/" + std::to_string(std::stoi(folder.read("pid0"))) + "/stat";
  for (int i = 0; i < 1000 && !contains(read_file(status), ") Z"); ++i) nap(2);
  nap(300);
  CHECK(contains(read_file(status), ") Z"));
  folder.write("go", "");
  CHECK(tool.wait() == 0);
  CHECK(!fs::exists(status));
}

TEST_CASE("lines of ranks and the summary cannot steer a terminal; tabs and colours stay") {
  const auto ended = run({"--nproc_per_node", "2", "sh", "-c",
                          "[ $RANK = 0 ] || exec sleep 60; "
                          "printf 'a\\tb \\033[1;31mred\\033[0m \\033]0;title\\007 \\303\\251 "
                          "\\302\\233 x\\ry\\r\\n'; exit 3"});
  const std::string safe =
      "a\tb \x1b[1;31mred\x1b[0m \\x1b]0;title\\x07 \xc3\xa9 \\xc2\\x9b x\\ry\n";
  CHECK(contains(ended.out, "[0] " + safe));
  CHECK(contains(ended.err, "\n  " + safe.substr(0, safe.size() - 1)));
  CHECK(contains(run({"no\x1b[2J"}).err, "no\\x1b[2J"));
}

TEST_CASE("text for a terminal keeps what shows and writes out what steers") {
  CHECK(terminal_text("plain \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80") ==
        "plain \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
  CHECK(terminal_text(std::string("\0\t\n\x1b[0m\x7f", 8)) == "\\x00\\t\\n\\x1b[0m\\x7f");
  CHECK(terminal_text("\xff\xc3(\xe2\x80\xae\xed\xa0\x80\xc0\xaf") ==
        "\\xff\\xc3(\\xe2\\x80\\xae\\xed\\xa0\\x80\\xc0\\xaf");
  CHECK(terminal_line("\x1b[38;5;1mx\x1b[m\x1b[2J\x1b[") ==
        "\x1b[38;5;1mx\x1b[m\\x1b[2J\\x1b[");
  for (const unsigned seed : testing::draws(22000)) {
    std::mt19937 random(seed);
    std::string bytes(draw(random, 0, 12), '\0');
    for (char& c : bytes) c = static_cast<char>(draw(random, 0, 255));
    for (const char c : terminal_text(bytes)) CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST_CASE("rank: reduces for ever" * doctest::skip()) {
  try {
    const Group group = launch_from_env().group();
    std::vector<float> data(3000, 1);
    for (;;) group.all_reduce(data, CollectiveOp::mean);
  } catch (const Error&) {
    std::quick_exit(1);
  }
}

TEST_CASE("a run tool that is killed at any moment leaves no folder and no rank") {
  for (const unsigned seed : testing::draws(66)) {
    std::mt19937 random(seed);
    Running tool(ranks_of(2, "rank: reduces for ever"));
    nap(draw(random, 0, 250));
    const std::string children =
        read_file(fmt::format("/proc/{0}/task/{0}/children", tool.pid()));
    kill(tool.pid(), SIGKILL);
    CHECK(tool.wait() == -SIGKILL);
    std::vector<pid_t> pids;
    std::istringstream words(children);
    for (pid_t pid; words >> pid;) pids.push_back(pid);
    CHECK(all_gone(pids));
    for (int i = 0; i < 1000 && !left_by(tool.pid()).empty(); ++i) nap(10);
    CHECK(left_by(tool.pid()) == "");
  }
}

TEST_CASE("what killed ranks and run tools leave is cleared away by the next, and nothing else") {
  ByHand killed("rank: reduces for ever"), next("rank: one comes late");
  const fs::path place = killed.meeting_place(), users = place.string() + "users";
  const std::string prefix = fmt::format("/dev/shm/booster-run-{}-", getpid());
  const fs::path dead = prefix + "dead", old = prefix + "old";
  for (const int rank : {0, 1}) killed.start({.rank = rank, .size = 2});
  while (!fs::exists(place / "leader")) nap(2);
  for (const auto& folder : {users, dead, old}) {
    fs::create_directories(folder / "run-aaaaaa");
    fs::permissions(folder, fs::perms::owner_all);
  }
  std::ofstream(users / "leader") << "mine";
  std::ofstream(users / "notes.txt") << "mine";
  std::ofstream(dead / "keeper") << "booster run";
  nap(200);
  ByHand beside("rank: one comes late");
  for (const int rank : {0, 1}) beside.start({.rank = rank, .size = 2});
  CHECK(failures(beside.wait()) == "");
  CHECK(fs::exists(place / "leader"));  // the leader is alive
  for (const size_t i : {0, 1}) kill(killed.pid(i), SIGKILL);
  killed.wait();
  CHECK(fs::exists(place / "leader"));
  for (const int rank : {0, 1}) next.start({.rank = rank, .size = 2});
  CHECK(failures(next.wait()) == "");
  CHECK(!fs::exists(place));
  CHECK(fs::exists(users / "notes.txt"));
  CHECK(run({"true"}).code == 0);
  CHECK(!fs::exists(dead));
  CHECK(fs::exists(old));  // nothing marks it as a run tool's
  fs::remove_all(users);
  fs::remove_all(old);
}

TEST_CASE("ranks started by hand that end by an error at any moment leave no folder") {
  for (const unsigned seed : testing::draws(66)) {
    std::mt19937 random(seed);
    const unsigned victim = seed % 3;
    ByHand ranks("rank: one fails");
    for (const int rank : {0, 1, 2})
      ranks.start({.rank = rank,
                   .size = 3,
                   .environment = {{"TEST_VICTIM", std::to_string(victim)},
                                   {"TEST_HOW", "exit"},
                                   {"TEST_STEPS", std::to_string(draw(random, 0, 100))},
                                   {"TEST_LATENCY_MS", std::to_string(draw(random, 0, 40))}}});
    const auto results = ranks.wait();
    CHECK(WEXITSTATUS(results[victim].status) == 7);
    CHECK(!fs::exists(ranks.meeting_place()));
  }
}
