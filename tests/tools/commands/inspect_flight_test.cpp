// `booster inspect` of a folder with flight records.
#include "parallel/groups/flight_recorder.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

CommandResult inspect(const TemporaryFolder& folder) {
  return run_booster("inspect '" + folder.path().string() + "'");
}

}  // namespace

TEST_CASE("inspect shows where the ranks of a group parted") {
  const TemporaryFolder folder;
  const auto world = std::make_shared<const std::string>("world");
  const auto ring = std::make_shared<const std::string>("world.0_1-0");
  for (int rank = 0; rank < 3; ++rank) {
    FlightRecorder recorder;
    const auto call = [&](auto group, uint64_t sequence, const char* what, FlightState state) {
      recorder.note(recorder.add({.sequence = sequence, .group = group, .operation = what,
                                  .count = 40, .dtype = DType::bf16}),
                    state);
    };
    for (uint64_t i = 1; i <= 4; ++i) call(world, i, "all_reduce", FlightState::done);
    call(ring, 1, "send", FlightState::done);
    if (rank == 0) call(world, 5, "all_reduce", FlightState::failed);
    if (rank == 1) call(world, 5, "barrier", FlightState::running);
    if (rank == 1) call(world, 6, "broadcast", FlightState::queued);
    folder.write("flight-" + std::to_string(rank) + ".json", recorder.json(rank, 4));
  }
  const CommandResult shown = inspect(folder);
  CAPTURE(shown.output);
  CHECK(shown.code == 0);
  CHECK(shown.says("records of 3 of 4 ranks"));
  CHECK(shown.says("no record of rank 3"));
  CHECK(shown.says("group world, which is complete up to call 4\n"));
  CHECK(shown.says("rank 0: call 5, all_reduce of 40 bf16: failed; 0 calls after it"));
  CHECK(shown.says("rank 1: call 5, barrier: running; 1 calls after it"));
  CHECK(shown.says("rank 2: got to call 4, all_reduce of 40 bf16"));
  CHECK(shown.says("group world.0_1-0\n"));
}

TEST_CASE("inspect refuses what is no flight record, with the file's name") {
  for (const char* bad : {"", "[]", "{}", "{\"rank\": 0, \"size\": 1, \"entries\": 3}",
                          "{\"rank\": 0, \"size\": 1, \"entries\": [{\"operation\": 1}]}",
                          "{\"rank\": \"x\", \"size\": 1, \"entries\": []}",
                          "{\"rank\": -1, \"size\": 1, \"entries\": []}",
                          "{\"rank\": 0, \"size\": 1e300, \"entries\": []}",
                          R"({"rank": 0, "size": 1, "entries": [{"operation": "x", "group": "g",
                              "count": 1e300, "sequence": 1, "dtype": "f32", "state": "done"}]})",
                          R"({"rank": 0, "size": 1, "entries": [{"operation": "x", "group": "g",
                              "count": 1, "sequence": 9223372036854775807, "dtype": "f32",
                              "state": "done"}]})"}) {
    CAPTURE(bad);
    const TemporaryFolder folder;
    folder.write("flight-0.json", bad);
    const CommandResult shown = inspect(folder);
    CAPTURE(shown.output);
    CHECK(shown.code == 1);
    CHECK(shown.says("flight-0.json"));
  }
}
