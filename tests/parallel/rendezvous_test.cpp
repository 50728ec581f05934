// Groups only need the interface of a rendezvous; also what the interface states about ranks.
#include <doctest/doctest.h>

#include "parallel/backends/backend.h"
#include "parallel/groups/meet.h"
#include "tests/parallel/memory_rendezvous.h"
#include "tests/parallel/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

using namespace booster;

namespace {

using Texts = std::vector<std::string>;

// Uses everything that involves other ranks; returns the backend that they chose.
std::string use(const Group& group) {
  std::vector<float> data(30000, static_cast<float>(group.rank() + 1));
  group.all_reduce(data);
  const Group other = group.subgroup({group.rank()});
  std::vector<int> backwards = group.world_ranks();
  std::reverse(backwards.begin(), backwards.end());
  std::vector<int32_t> mine = {group.rank()}, all(group.size());
  group.subgroup(backwards).all_gather(all, mine);
  group.barrier();
  return fmt::format("{} {} {} {}", group.backend(), other.backend(), data.back(), all[0]);
}

}  // namespace

TEST_CASE("ranks that meet in memory use shared memory if they have a folder, else Gloo") {
  if (std::getenv("BOOSTER_BACKEND")) return;
  Texts used(3);
  const auto note = [&](const Group& group) { used[group.rank()] = use(group); };
  CHECK(run_as_threads(3, Meeting::with_folder, note) == "");
  CHECK(used == Texts(3, "shm local 6 2"));
  if (has_backend("gloo")) {
    CHECK(run_as_threads(3, Meeting::without_folder, note) == "");
    CHECK(used == Texts(3, "gloo local 6 2"));
  }
}

TEST_CASE("a rendezvous of one rank makes a group of one") {
  CHECK(run_as_threads(1, Meeting::without_folder,
                       [](const Group& group) { CHECK(use(group) == "local local 1 0"); }) == "");
}

TEST_CASE("errors of collectives say where ranks stand once their places have names") {
  const std::string errors = run_as_threads(2, Meeting::with_folder, [](const Group& group) {
    group.name_places({"data 0", "data 1"});
    std::vector<float> data(3);
    if (group.rank() == 0) group.barrier();
    else group.all_reduce(data);
  });
  const std::string told =
      "the ranks call different collectives: rank 0 (data 0): barrier (call 1); rank 1 (data "
      "1): all_reduce of 3 f32 by sum (call 1)";
  CHECK(errors == "rank 0: barrier: " + told + "\nrank 1: all_reduce: " + told + "\n");
}

TEST_CASE("a rank that has ended is named with its place and its process") {
  const std::string errors = run_as_threads(3, Meeting::with_folder, [](const Group& group) {
    group.name_places({"data 0", "data 1", "data 2"});
    if (group.rank() != 1) group.barrier();
  });
  const std::string told =
      "barrier: rank 1 (data 1; thread 1) has ended while other ranks still need it";
  CHECK(errors == "rank 0: " + told + "\nrank 2: " + told + "\n");
}

TEST_CASE("a rank is described by what is known of it") {
  const auto room = std::make_shared<MeetingRoom>();
  MemoryRendezvous rendezvous(room, 0, 2);
  CHECK(rendezvous.name(1) == "rank 1");
  CHECK(rendezvous.describe(1) == "rank 1 (thread 1)");
  rendezvous.set_place(1, "data 1, tensor 0");
  CHECK(rendezvous.name(1) == "rank 1 (data 1, tensor 0)");
  CHECK(rendezvous.describe(1) == "rank 1 (data 1, tensor 0; thread 1)");
  rendezvous.set_place(1, "");
  CHECK(rendezvous.name(1) == "rank 1");
}

TEST_CASE("the first report of a failure stays, whoever reports another") {
  const std::string folder =
      std::filesystem::temp_directory_path() / fmt::format("booster-test-report-{}", getpid());
  {
    const auto rendezvous = meet(folder, 0, 1);
    CHECK(rendezvous->trouble({0}) == "");
    rendezvous->report_failure("the first");
    rendezvous->report_failure("the second");
    CHECK(rendezvous->trouble({0}) == "the first");
  }
  CHECK(!std::filesystem::exists(folder));
}

TEST_CASE("places are named for all members or refused") {
  const Group alone;
  alone.name_places({""});
  CHECK_THROWS_WITH_AS(alone.name_places({"data 0", "data 1"}),
                       "name_places: wrong number of places; got 2, want 1, one for each rank",
                       Error);
}

TEST_CASE("a meeting place of an unknown kind is refused") {
  CHECK_THROWS_WITH_AS(
      Group("etcd://host:29500", 0, 2),
      "rendezvous: unknown kind of meeting place; got 'etcd://host:29500', want a folder or "
      "tcp://HOST:PORT",
      Error);
  CHECK_THROWS_AS(Group("tcp://host:29500", 2, 2), Error);
}
