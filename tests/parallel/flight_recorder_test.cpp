// The flight record: what a rank last did together with others.
#include "parallel/groups/flight_recorder.h"

#include "parallel/mesh.h"
#include "tests/occurrences.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace booster;
using booster::testing::occurrences;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the last 512 operations are kept, each with its state") {
  std::mt19937 random(5);
  FlightRecorder recorder;
  std::map<uint64_t, FlightState> model;
  const auto group = std::make_shared<const std::string>("world");
  for (uint64_t i = 1; i <= 2000; ++i) {
    CHECK(recorder.add({.sequence = i, .group = group, .operation = "barrier"}) == i);
    model[i] = FlightState::queued;
    const uint64_t changed = 1 + random() % i;  // often one that has been dropped
    const auto state = static_cast<FlightState>(1 + random() % 3);
    recorder.note(changed, state);
    model[changed] = state;
  }
  const std::string json = recorder.json(3, 8);
  CHECK(json.starts_with("{\"rank\": 3, \"size\": 8, \"entries\": ["));
  std::map<std::string, size_t> want;
  for (uint64_t i = 2000 - FlightRecorder::most_entries + 1; i <= 2000; ++i) {
    CHECK(occurrences(json, "\"number\": " + std::to_string(i) + ",") == 1);
    ++want[name_of(model[i])];
  }
  CHECK(occurrences(json, "\"number\"") == FlightRecorder::most_entries);
  for (const auto& [state, count] : want)
    CHECK(occurrences(json, "\"state\": \"" + state + "\"") == count);
}

TEST_CASE("rank: parts from the others" * doctest::skip()) {
  const Group group = launch_from_env().group();
  std::vector<float> data(300);
  for (int i = 0; i < 7; ++i) group.all_reduce(data);
  try {
    group.rank() == 1 ? group.barrier() : group.all_reduce(data);
    CHECK(false);
  } catch (const Error&) {
  }
}
TEST_CASE("ranks that fail write what they did") {
  Ranks ranks("rank: parts from the others", 3, {{"BOOSTER_FLIGHT_RECORD", "/proc/nowhere"}});
  const auto unwritable = ranks.wait();
  CHECK(failures(unwritable) == "");
  CHECK(unwritable[0].output.find("cannot write /proc/nowhere/flight-0.json") != std::string::npos);

  std::string folder = "/tmp/booster-flight-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  CHECK(failures(
            Ranks("rank: parts from the others", 3, {{"BOOSTER_FLIGHT_RECORD", folder}}).wait()) ==
        "");
  for (const char* rank : {"0", "1", "2"}) {
    const std::string text = read(folder + "/flight-" + rank + ".json");
    CAPTURE(text);
    CHECK(occurrences(text, "\"group\": \"world\"") == 8);
    CHECK(occurrences(text, "\"count\": 300, \"dtype\": \"f32\", \"state\": \"done\"") == 7);
    CHECK(occurrences(text, "\"state\": \"failed\"") == 1);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("rank: one waits for another" * doctest::skip()) {
  std::signal(SIGTERM, SIG_DFL);  // the test framework handles it
  const Group group = launch_from_env().group();
  group.barrier();
  if (group.rank() == 0) {
    const pid_t child = fork();  // a child has no record to write, and not this rank's
    if (child == 0)
      for (;;) pause();
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
  }
  touch("ready-" + std::to_string(group.rank()));
  if (group.rank() == 1)
    for (;;) pause();
  std::vector<float> data(300);
  group.all_reduce(data);
}
#ifndef __SANITIZE_THREAD__  // it delays signals while a thread waits for the kernel
TEST_CASE("a rank that SIGTERM ends while it waits writes what it did, and ends by that signal") {
  std::string folder = "/tmp/booster-flight-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  Ranks ranks("rank: one waits for another", 2, {{"BOOSTER_FLIGHT_RECORD", folder}});
  for (const char* name : {"ready-0", "ready-1"}) ranks.wait_for_file(name);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK_FALSE(std::filesystem::exists(folder + "/flight-0.json"));
  kill(ranks.pid(0), SIGTERM);
  const std::string path = folder + "/flight-0.json";
  for (int i = 0; i < 500 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill(ranks.pid(1), SIGKILL);
  const int status = ranks.wait()[0].status;
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
  const std::string text = read(path);
  CAPTURE(text);
  CHECK(occurrences(text, "\"state\": \"done\"") == 1);
  CHECK(occurrences(text, "\"operation\": \"all_reduce\"") == 1);
  CHECK(occurrences(text, "\"state\": \"running\"") == 1);
  std::filesystem::remove_all(folder);
}
#endif
