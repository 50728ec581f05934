// The faults that the CPU emulator of CUDA detects. Every scenario is correct in any order if it
// follows its rule. If it does not, the emulator detects it.
#include "tests/cuda_on_host/faults/apart.h"
#include "tests/cuda_on_host/faults/scenarios.h"

#include <doctest/doctest.h>

#include <string>

using namespace cuda_on_host::faults;

namespace {

struct Scenario {
  const char* name;
  bool (*run)(bool);
  const char* complaint;  // "": the result is wrong, or another fault is reported
};

const Scenario scenarios[] = {
    {"sum_in_block", sum_in_block, "shared memory that"},
    {"sum_of_some", sum_of_some, "threads wait for others that do not come"},
    {"copy_within", copy_within, "of an allocation of 400"},
    {"copy_then_free", copy_then_free, "that were freed"},
    {"copy_written", copy_written, "nobody has written"},
    {"write_apart", write_apart, "another thread writes"},
    {"read_argument", read_argument, "memory of the host"},
    {"read_packed", read_packed, "no multiple of 16"},
    {"rotate_in_warp", rotate_in_warp, "for lanes of their warp"},
    {"fill_shared", fill_shared, "bytes of shared memory; want 49152 at most"},
    {"copy_beside", copy_beside, "shared memory that nobody has written"},
    {"multiply_matrices", multiply_matrices, ""},
    {"multiply_together", multiply_together, "for lanes of their warp"},
    {"read_result", read_result, "the host touched the device's memory"},
    {"pass_between_streams", pass_between_streams, ""},
    {"reuse_pinned", reuse_pinned, ""},
    {"wait_for_result", wait_for_result, ""},
};

constexpr int seeds = 12;

}  // namespace

TEST_CASE("programs that do what they should are right in any order") {
  for (const Scenario& scenario : scenarios)
    for (int seed = 1; seed <= seeds; ++seed) {
      CAPTURE(std::string(scenario.name));
      CAPTURE(seed);
      const Outcome outcome = run_apart(seed, [&] { return scenario.run(true); });
      CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
    }
}

TEST_CASE("a program that leaves something out is found out") {
  for (const Scenario& scenario : scenarios) {
    CAPTURE(std::string(scenario.name));
    int found = 0;
    std::string words;
    for (int seed = 1; seed <= seeds; ++seed) {
      const Outcome outcome = run_apart(seed, [&] { return scenario.run(false); });
      words += outcome.words;
      found += outcome.how != Outcome::right;
    }
    // Unordered streams may happen to run in the right order.
    CHECK(found >= (*scenario.complaint ? seeds : 1));
    CHECK_MESSAGE(words.find(scenario.complaint) != std::string::npos, words);
  }
}
