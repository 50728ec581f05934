// What the other ranks see if a rank dies, stops, leaves or makes different calls.
#include <doctest/doctest.h>

#include "parallel/backends/backend.h"
#include "parallel/mesh.h"
#include "parallel/operations/operation_tag.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/tools/run/failed_runs.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <unistd.h>

using namespace booster;

namespace {

void wait_until_there(const std::string& name) {
  while (!std::filesystem::exists(test_folder() + "/" + name))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Returns the group of all ranks after they have connected. From now on they wait only this long
// for each other, however slow their start was.
Group impatient_group(const World& world) {
  const Group met = world.group();
  met.barrier();
  setenv("BOOSTER_TIMEOUT", "4", 1);  // enough time on a busy machine
  return met.subgroup(met.world_ranks());
}

// At once, because ranks here wait for most of their time.
void for_each_connection(void (*body)(const Connection& connection)) {
  std::vector<std::thread> threads;
  for (const Connection& connection : connections())
    threads.emplace_back([body, connection] {
      CAPTURE(connection.name);
      body(connection);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("rank: passes on what a rank has sent that has ended" * doctest::skip()) {
  const Group group = launch_from_env().group();
  std::vector<float> small = {7}, large(8 << 20, static_cast<float>(group.rank()));
  if (group.rank() == 0) return group.send(small, 1);
  if (group.rank() == 1) {
    small[0] = 0;
    group.send_receive(large, 2, small, 0);
    CHECK(small[0] == 7);
    return;
  }
  std::this_thread::sleep_for(std::chrono::seconds(3));
  group.receive(large, 1);
  CHECK(large.front() == 1);
  CHECK(large.back() == 1);
}
TEST_CASE("a rank that has done its part may end while others are still at theirs") {
  for_each_connection([](const Connection& connection) {
    Ranks ranks("rank: passes on what a rank has sent that has ended", 3, connection.environment);
    CHECK(failures(ranks.wait()) == "");
  });
}

TEST_CASE("rank: reduces until somebody dies" * doctest::skip()) {
  const Group group = launch_from_env().group();
  std::vector<float> data(1 << 20, 1.0F);
  group.all_reduce(data);
  touch("ready-" + std::to_string(group.rank()));
  const std::string error = failure_of([&] {
    for (;;) group.all_reduce(data);
  });
  CAPTURE(error);
  CHECK(contains(error, "all_reduce: "));
  CHECK(contains(error, "rank 1 (pid "));
  // The group stays unusable, for the same reason.
  CHECK(failure_of([&] { group.barrier(); }) == error);
}
// Its end itself is noticed: Ranks::wait() is shorter than the limits that would also name it.
TEST_CASE("a rank killed in an all-reduce is named by the others at once") {
  for_each_connection([](const Connection& connection) {
    Ranks ranks("rank: reduces until somebody dies", 3,
                connection.with({{"BOOSTER_HEARTBEAT", "600"}}));
    for (const char* name : {"ready-0", "ready-1", "ready-2"}) ranks.wait_for_file(name);
    kill(ranks.pid(1), SIGKILL);
    const auto results = ranks.wait();
    CHECK(results[1].status == SIGKILL);
    CHECK(failures({results[0], results[2]}) == "");
  });
}

TEST_CASE("rank: reduces until somebody stops" * doctest::skip()) {
  const Group group = impatient_group(launch_from_env());
  touch("ready-" + std::to_string(group.rank()));
  std::vector<float> data(100000, 1.0F);
  const std::string error = failure_of([&] {
    for (;;) group.all_reduce(data);
  });
  touch("named");
  CAPTURE(error);
  CHECK(contains(error, "rank 1 (pid "));
  CHECK(contains(error, "did not arrive"));
}
TEST_CASE("a stopped rank is named when the time is up") {
  for_each_connection([](const Connection& connection) {
    Ranks ranks("rank: reduces until somebody stops", 2, connection.environment);
    for (const char* name : {"ready-0", "ready-1"}) ranks.wait_for_file(name);
    kill(ranks.pid(1), SIGSTOP);
    ranks.wait_for_file("named");
    kill(ranks.pid(1), SIGKILL);
    CHECK(failures({ranks.wait()[0]}) == "");
  });
}

TEST_CASE("rank: some do not come" * doctest::skip()) {
  const Group group = impatient_group(launch_from_env());
  group.barrier();
  if (group.rank() % 2) {
    for (const char* name : {"/named-0", "/named-2"})
      while (!std::filesystem::exists(test_folder() + name))
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return;
  }
  std::vector<float> data(1000, 1.0F);
  const std::string error = failure_of([&] { group.all_reduce(data); });
  touch("named-" + std::to_string(group.rank()));
  CAPTURE(error);
  CHECK(contains(error, "rank 1 (pid "));
  CHECK(contains(error, " and rank 3 (pid "));
  const size_t told = error.find(" gave up: ");  // from a rank that timed out earlier
  const std::string named = told == error.npos ? error : error.substr(told);
  for (const char* came : {"rank 0 (pid ", "rank 2 (pid "}) CHECK(!contains(named, came));
  CHECK(contains(error, "live but did not arrive"));
}
TEST_CASE("all ranks that did not come are named when the time is up") {
  for_each_connection([](const Connection& connection) {
    CHECK(failures(Ranks("rank: some do not come", 4, connection.environment).wait()) == "");
  });
}

TEST_CASE("rank: reduces while somebody is stopped for long" * doctest::skip()) {
  const Group group = launch_from_env().group();
  touch("ready-" + std::to_string(group.rank()));
  std::vector<float> data(100000, 1.0F);
  const auto start = std::chrono::steady_clock::now();
  const std::string error = failure_of([&] {
    for (;;) group.all_reduce(data);
  });
  CHECK(std::chrono::steady_clock::now() - start > std::chrono::milliseconds(2500));
  touch("named");
  CAPTURE(error);
  CHECK(contains(error, "rank 1 (pid "));
  CHECK(contains(error,
                 "has been stopped for 2 s (SIGSTOP or a debugger; limit: BOOSTER_HEARTBEAT)"));
}
TEST_CASE("on one machine, too, a rank that stays stopped is lost; one that goes on is not") {
  for (const char* backend : {"shm", "gloo"}) {
    Ranks ranks("rank: reduces while somebody is stopped for long", 3,
                {{"BOOSTER_HEARTBEAT", "2"}, {"BOOSTER_BACKEND", backend}});
    for (const char* name : {"ready-0", "ready-1", "ready-2"}) ranks.wait_for_file(name);
    for (const int signal : {SIGSTOP, SIGCONT, SIGSTOP}) {
      kill(ranks.pid(1), signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    }
    ranks.wait_for_file("named");
    kill(ranks.pid(1), SIGKILL);
    const auto results = ranks.wait();
    CHECK(failures({results[0], results[2]}) == "");
  }
}

TEST_CASE("rank: one is through before the others" * doctest::skip()) {
  const Group group = launch_from_env().group();
  std::vector<float> data(1000, static_cast<float>(group.rank()));
  if (group.rank() == 2) return group.send(data, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(group.rank() == 1 ? 600 : 0));
  if (group.rank() == 1) return group.send(data, 0);
  for (const int from : {1, 2}) {
    group.receive(data, from);
    CHECK(data == std::vector<float>(1000, static_cast<float>(from)));
  }
}
TEST_CASE("two ranks exchange messages although a third has ended") {
  for_each_connection([](const Connection& connection) {
    CHECK(failures(Ranks("rank: one is through before the others", 3, connection.environment)
                       .wait()) == "");
  });
}

TEST_CASE("rank: one leaves early" * doctest::skip()) {
  const Group group = launch_from_env().group();
  group.barrier();
  if (group.rank() == 0) return;
  std::vector<int64_t> data(10);
  const std::string error = failure_of([&] { group.broadcast(data, 2); });
  CAPTURE(error);
  CHECK(contains(error, "rank 0 (pid "));
  CHECK(contains(error, "has ended while other ranks still need it"));
}
TEST_CASE("a rank that ends well but early is named") {
  for_each_connection([](const Connection& connection) {
    CHECK(failures(Ranks("rank: one leaves early", 3, connection.environment).wait()) ==
          "");
  });
}

TEST_CASE("rank: sends and leaves" * doctest::skip()) {
  const Group group = launch_from_env().group();
  std::vector<float> data(5000, static_cast<float>(group.rank()));
  if (group.rank() == 0) return group.send(data, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  group.receive(data, 0);
  CHECK(data == std::vector<float>(5000, 0.0F));
}
TEST_CASE("what a rank sent before it ended arrives") {
  for_each_connection([](const Connection& connection) {
    CHECK(failures(Ranks("rank: sends and leaves", 2, connection.environment).wait()) ==
          "");
  });
}

TEST_CASE("rank: disagrees" * doctest::skip()) {
  const Group group = launch_from_env().group();
  const std::string how = std::getenv("TEST_HOW");
  const bool odd = group.rank() == 1;
  std::vector<float> data(100, 1.0F), more(101, 1.0F), all(300);
  std::vector<int32_t> whole(100);
  const std::string error = failure_of([&] {
    const auto tag = [](int64_t bucket) { return OperationTag::of(OperationTag::bucket, bucket); };
    if (how == "tag")
      return group.all_reduce_async(data, CollectiveOp::sum, tag(odd ? 7 : 3)).wait();
    if (!odd) return group.all_reduce(data);
    if (how == "count") return group.all_reduce(more);
    if (how == "dtype") return group.all_reduce(whole);
    if (how == "reduction") return group.all_reduce(data, CollectiveOp::max);
    if (how == "collective") return group.all_gather(all, data);
    if (how == "barrier") return group.barrier();
    group.send(data, 0);
    group.barrier();
  });
  CAPTURE(error);
  CHECK(contains(error, "the ranks call different collectives"));
  CHECK(contains(error, "rank 0: all_reduce of 100 f32 by sum"));
  const std::map<std::string, std::string> wants = {{"count", "rank 1: all_reduce of 101 f32"},
                                                    {"dtype", "rank 1: all_reduce of 100 i32"},
                                                    {"reduction", "by max"},
                                                    {"collective", "rank 1: all_gather"},
                                                    {"barrier", "rank 1: barrier"},
                                                    {"tag", "by sum (call 1, bucket 7)"},
                                                    {"send", ""}};
  CHECK(contains(error, wants.at(how)));
}
TEST_CASE("ranks that call different collectives all get an error that says who calls what") {
  for_each_connection([](const Connection& connection) {
    for (const char* how : {"count", "dtype", "reduction", "collective", "barrier", "tag"}) {
      CAPTURE(how);
      CHECK(failures(Ranks("rank: disagrees", 3, connection.with({{"TEST_HOW", how}}))
                         .wait()) == "");
    }
  });
}

TEST_CASE("rank: gives up pending work" * doctest::skip()) {
  std::vector<float> data(10);
  Work first, second;
  {
    const Group group(test_folder() + "/own", launch_from_env().rank, 2);
    if (group.rank() == 1) {
      touch("met");
      return wait_until_there("closed");
    }
    wait_until_there("met");  // or rank 0 may be gone before rank 1 has the group
    first = group.all_reduce_async(data);
    second = group.all_reduce_async(data);
    CHECK(!first.is_done());
  }
  touch("closed");
  CHECK(first.is_done());
  CHECK(contains(failure_of([&] { first.wait(); }), "the group was closed"));
  CHECK(contains(failure_of([&] { second.wait(); }), "the group was closed"));
}
TEST_CASE("a group that goes while work is pending gives the work up") {
  for_each_connection([](const Connection& connection) {
    CHECK(
        failures(Ranks("rank: gives up pending work", 2, connection.environment).wait()) ==
        "");
  });
}

TEST_CASE("rank: meets in a used folder" * doctest::skip()) {
  const World world = launch_from_env();
  const std::string folder = std::getenv("TEST_MEETING_PLACE");
  Group group(folder, world.rank, world.size);
  group.barrier();
  touch("ready-" + std::to_string(world.rank));
  if (std::getenv("TEST_HANG")) pause();
}
TEST_CASE("ranks meet where an earlier run was killed, and leave nothing behind") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("booster-test-meeting-" + std::to_string(getpid()));
  {
    Ranks killed("rank: meets in a used folder", 2,
                 {{"TEST_MEETING_PLACE", folder}, {"TEST_HANG", "1"}});
    for (const char* name : {"ready-0", "ready-1"}) killed.wait_for_file(name);
  }
  CHECK(std::filesystem::exists(folder));
  CHECK(
      failures(Ranks("rank: meets in a used folder", 2, {{"TEST_MEETING_PLACE", folder}}).wait()) ==
      "");
  CHECK(!std::filesystem::exists(folder));
}

TEST_CASE("rank: does not wait for ever" * doctest::skip()) {
  const World world = launch_from_env();
  world.group().barrier();
  setenv("BOOSTER_TIMEOUT", "0.5", 1);
  const std::string error = failure_of([&] { Group(test_folder() + "/three", world.rank, 3); });
  CAPTURE(error);
  CHECK((contains(error, "missing: rank 2") || contains(error, "gave up") ||
         contains(error, "has ended")));
}
TEST_CASE("a rank that never comes is named when the time is up") {
  CHECK(failures(Ranks("rank: does not wait for ever", 2).wait()) == "");
}

TEST_CASE("a folder that others can enter is refused") {
  std::string folder = std::filesystem::temp_directory_path() / "booster-test-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  CHECK_THROWS_WITH_AS(Group(folder, 0, 2),
                       ("rendezvous: " + folder +
                        " is not a private folder of this user; want a folder with mode 0700")
                           .c_str(),
                       Error);
  std::filesystem::remove_all(folder);
}
