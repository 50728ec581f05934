// Which ranks drop the same elements in dropout.
#include "booster/booster.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

using namespace booster;

TEST_CASE("rank: dropped elements" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
  const auto drawn = [&](const Group& ranks) {
    const Tensor mine = uniform({64});
    std::vector<float> first = mine.to_vector<float>();
    ranks.broadcast(first);
    return first == mine.to_vector<float>();
  };
  manual_seed(7);
  CHECK(drawn(world));
  seed_ranks(7, mesh);
  CHECK(drawn(mesh.group("tensor")));
  CHECK(drawn(mesh.group("data")) == (mesh.place("data") == 0));
}
TEST_CASE("seed_ranks lets ranks draw apart where their data differ, and alike where they do not") {
  run_ranks("rank: dropped elements", 4);
}
