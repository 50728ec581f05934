// Places of a rendezvous: which process holds one, what others see, and invalid files.
#include <doctest/doctest.h>

#include "parallel/groups/meet.h"
#include "parallel/rendezvous/place.h"
#include "parallel/rendezvous/rendezvous.h"
#include "platform/error.h"
#include "tests/booster/temporary_folder.h"
#include "tests/parallel/memory_rendezvous.h"
#include "tests/tools/run/run_tool.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <thread>

using namespace booster;
namespace fs = std::filesystem;

namespace {

// A child process that runs `body` and ends; the destructor kills it.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  void end() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// A child process that holds a place with this text until the destructor runs.
class Holder {
 public:
  Holder(const std::string& path, const std::string& text)
      : child_([&] {
          const auto place = Place::take(path, text);
          for (;;) pause();
        }) {
    while (!Place::look(path)) nap(1);
  }
  void end() { child_.end(); }

 private:
  Child child_;
};

}  // namespace

TEST_CASE("a place is held as long as its process lives, and says whose it is") {
  const TemporaryFolder folder;
  const std::string path = folder / "place";
  Holder holder(path, "somebody");
  const auto place = Place::look(path);
  REQUIRE(place);
  CHECK(place->text() == "somebody");
  CHECK(place->is_held());
  CHECK(!Place::take(path, "me"));
  Place::clear(path);
  CHECK(fs::exists(path));
  holder.end();
  CHECK(!place->is_held());
  CHECK(!Place::take(path, "me"));
  Place::clear(path);
  CHECK(Place::take(path, "me"));
  CHECK(folder.entries() == 1);
}

TEST_CASE("of processes that race for a place that a dead one left, one has it at a time") {
  const TemporaryFolder folder;
  const std::string path = folder / "place", inside = folder / "inside";
  { const auto dead = Place::take(path, "dead"); }
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 8; ++i)
    children.push_back(std::make_unique<Child>([&] {
      for (int turns = 0; turns < 25;) {
        if (const auto other = Place::look(path); !other || !other->is_held()) Place::clear(path);
        const auto own = Place::take(path, "a child");
        if (!own) continue;
        if (mkdir(inside.c_str(), 0700) != 0) _exit(1);  // another process is inside
        if (turns % 3 == 0) sched_yield();
        rmdir(inside.c_str());
        ++turns;
      }
    }));
  for (auto& child : children) CHECK(child->wait() == 0);
}

// Inside the namespace the holder has no process ID.
TEST_CASE("a process in another PID namespace holds its place") {
  const TemporaryFolder folder;
  const std::string path = folder / "place";
  const Holder holder(path, "outside");
  constexpr int cannot_tell = 3;
  Child outer([&] {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
      _exit(cannot_tell);
    Child inner([&] {
      const auto place = Place::look(path);
      _exit(place && place->is_held() ? 0 : 1);
    });
    _exit(WEXITSTATUS(inner.wait()));
  });
  const int code = WEXITSTATUS(outer.wait());
  if (code == cannot_tell) MESSAGE("this system makes no PID namespaces");
  CHECK((code == 0 || code == cannot_tell));
}

TEST_CASE("what is not a private regular file of a sensible size is no place and is not read") {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  folder.write("file", "text");
  CHECK(read_private(path("file")) == "text");
  fs::create_symlink(folder / "file", folder / "link");
  mkfifo(path("pipe").c_str(), 0600);
  fs::create_directory(folder / "folder");
  folder.write("endless", "");
  fs::resize_file(folder / "endless", (1 << 20) + 1);
  for (const char* name : {"link", "pipe", "folder", "endless", "absent"}) {
    CAPTURE(name);
    CHECK(!read_private(path(name)));
    CHECK(!Place::look(path(name)));
    Place::clear(path(name));
  }
  CHECK(folder.entries() == 5);
  if (geteuid() == 0 && chown(path("file").c_str(), 12345, 12345) == 0)
    CHECK(!read_private(path("file")));
}

// A run's folder is removed at the end, so its name must not lead elsewhere.
TEST_CASE("a rank joins, and removes, no folder but a run's own under the meeting place") {
  std::mt19937 random{std::random_device()()};
  setenv("BOOSTER_TIMEOUT", "0.2", 1);
  const TemporaryFolder folder;
  folder.write("victim/precious", "x");
  const fs::path meeting = folder / "meet";
  fs::create_directory(meeting);
  fs::permissions(meeting, fs::perms::owner_all);
  fs::create_directory_symlink(folder / "victim", meeting / "run-linked");
  std::vector<std::string> names = {"", "..", "../victim", "run-", "run-../x", "run-abc/..",
                                    "run-linked", (folder / "victim").string(), "run-ab\x1b[2J"};
  for (int i = 0; i < 10; ++i) {
    std::string bytes(std::uniform_int_distribution(0, 30)(random), '\0');
    for (char& c : bytes) c = static_cast<char>(std::uniform_int_distribution(0, 255)(random));
    names.push_back(bytes);
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    const Holder leader(meeting / "leader", name + "\npid 1 on host\n2 ranks of a job");
    CHECK_THROWS_AS(meet(meeting, 1, 2, "2 ranks of a job"), Error);
    fs::remove(meeting / "leader");
  }
  CHECK(folder.read("victim/precious") == "x");
  CHECK(std::distance(fs::directory_iterator(folder / "victim"), {}) == 1);
  unsetenv("BOOSTER_TIMEOUT");
}

// Accessing memory beyond the end of the file would end the process with a signal.
TEST_CASE("a segment of another size than the ranks want is an error") {
  for (const uintmax_t bytes : {uintmax_t{0}, uintmax_t{4096}, uintmax_t{1} << 30}) {
    const auto room = std::make_shared<MeetingRoom>();
    const TemporaryFolder folder;
    room->folder = folder.path();
    room->joined = {0};
    room->values["world.shm"] = folder / "world.shm-segment";
    folder.write("world.shm-segment", "");
    fs::resize_file(folder / "world.shm-segment", bytes);
    setenv("BOOSTER_BACKEND", "shm", 1);
    std::string error;
    try {
      const Group group(std::make_shared<MemoryRendezvous>(room, 1, 2));
    } catch (const Error& caught) {
      error = caught.what();
    }
    unsetenv("BOOSTER_BACKEND");
    CHECK(error.find(fmt::format("is not the segment of 2 ranks; got {} bytes, want ", bytes)) !=
          std::string::npos);
  }
}

TEST_CASE("a file in a leader's way is an error that names it") {
  const TemporaryFolder folder;
  const fs::path meeting = folder / "meet";
  fs::create_directory(meeting);
  fs::permissions(meeting, fs::perms::owner_all);
  fs::create_directory(meeting / "leader");
  CHECK_THROWS_WITH_AS(meet(meeting, 0, 2, "job"),
                       ("rendezvous: cannot make " + (meeting / "leader").string() +
                        ": a file that is not a rank's is in the way")
                           .c_str(),
                       Error);
}
