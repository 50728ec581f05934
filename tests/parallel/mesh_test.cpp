// Meshes of real ranks: the groups along their axes, and positions in errors.
#include <doctest/doctest.h>

#include "parallel/backends/backend.h"
#include "parallel/mesh.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/parallel/memory_rendezvous.h"
#include "tests/parallel/ranks.h"

#include <fmt/ranges.h>

#include <random>

using namespace booster;

namespace {

using Ints = std::vector<int32_t>;
using Names = std::vector<std::string>;

// Returns the ranks of the mesh's world that take part in a collective of the group.
Ints ranks_that_meet(const Group& group, const Mesh& mesh) {
  Ints mine = {mesh.world().rank()}, all(group.size());
  group.all_gather(all, mine);
  return all;
}

void run_on_four(const char* test_case) {
  for (const auto& backend : free_backends()) {
    CAPTURE(backend);
    CHECK(failures(Ranks(test_case, 4, {{"BOOSTER_BACKEND", backend}}).wait()) == "");
  }
}

}  // namespace

TEST_CASE("rank: 2 x 2 mesh" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const int rank = world.rank();
  const Mesh mesh(world, {{"data", 2}, {"tensor", -1}});
  CHECK(mesh.size("data") == 2);
  CHECK(mesh.size("tensor") == 2);
  CHECK(mesh.size("pipeline") == 1);
  CHECK(mesh.place("data") == rank / 2);
  CHECK(mesh.place("tensor") == rank % 2);
  CHECK(mesh.place("pipeline") == 0);
  CHECK(mesh.group("data").rank() == rank / 2);
  CHECK(mesh.group("tensor").rank() == rank % 2);
  CHECK(mesh.group("pipeline").size() == 1);
  CHECK(mesh.group("pipeline").world_ranks() == Ints{rank});
  CHECK(mesh.describe(1) == "rank 1 (data 0, tensor 1)");

  std::vector<float> along_data = {static_cast<float>(rank)}, along_tensor = along_data,
                     all = along_data;
  mesh.group("data").all_reduce(along_data);
  mesh.group("tensor").all_reduce(along_tensor);
  CHECK(along_data[0] == (rank % 2 == 0 ? 0 + 2 : 1 + 3));
  CHECK(along_tensor[0] == (rank / 2 == 0 ? 0 + 1 : 2 + 3));
  const Group both = mesh.joint_group({"tensor", "data"});
  CHECK(both.rank() == rank);
  both.all_reduce(all);
  CHECK(all[0] == 6);

  const Mesh copy = mesh;
  CHECK(&copy.group("data") == &mesh.group("data"));
}
TEST_CASE("a 2 x 2 mesh reduces along each axis and along both") {
  run_on_four("rank: 2 x 2 mesh");
}

TEST_CASE("rank: leaves a mesh" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const Mesh mesh(world, Layout{.data = 2, .tensor = 2});
  world.barrier();
  if (world.rank() == 3) return;
  if (world.rank() != 2) {
    CHECK(error_of([&] { world.barrier(); }) != "");
    return;
  }
  const std::string error = error_of([&] { mesh.group("tensor").barrier(); });
  CAPTURE(error);
  CHECK(contains(error, "barrier: rank 3 (data 1, tensor 1; pid "));
  CHECK(contains(error, ") has ended while other ranks still need it"));
}
TEST_CASE("a rank that dies is named with its place on the mesh") {
  run_on_four("rank: leaves a mesh");
}

TEST_CASE("groups of meshes drawn at random hold the ranks of the arithmetic") {
  for (const unsigned draw : testing::draws(12)) {
    std::mt19937 random(draw);
    const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % most); };
    const int inner = up_to(2), middle = up_to(3), size = inner * middle * up_to(2);
    CAPTURE(size);
    CAPTURE(middle);
    const auto body = [&](const Group& world) {
      const Mesh mesh(world, {{"pipeline", -1}, {"tensor", middle}, {"sequence", inner}});
      for (const Names& names :
           {Names{"pipeline"}, Names{"tensor"}, Names{"sequence"}, Names{"data"},
            Names{"sequence", "pipeline"}, Names{"tensor", "sequence"},
            Names{"pipeline", "tensor", "sequence"}, Names{}}) {
        const Group group = names.size() == 1 ? mesh.group(names[0]) : mesh.joint_group(names);
        if (ranks_that_meet(group, mesh) != mesh.axes().ranks_along(world.rank(), names))
          throw Error(fmt::format("other ranks along {}", fmt::join(names, ", ")));
      }
      world.barrier();
    };
    CHECK(run_as_threads(size, Meeting::with_folder, body) == "");
  }
}

TEST_CASE("an axis that covers the world is served by the world's own group") {
  const std::string errors = run_as_threads(3, Meeting::with_folder, [](const Group& world) {
    const Mesh mesh(world, {{"data", 3}, {"tensor", 1}});
    if (&mesh.group("data") != &mesh.world() || mesh.group("tensor").backend() != "local")
      throw Error("another group was made");
  });
  CHECK(errors == "");
}

TEST_CASE("a mesh of a subgroup names the ranks of the run") {
  const std::string errors = run_as_threads(4, Meeting::with_folder, [](const Group& run) {
    const bool odd = run.rank() % 2 == 1;
    const Group world = run.subgroup(odd ? std::vector{1, 3} : std::vector{0, 2});
    const Mesh mesh(world, {{"sequence", 2}});
    if (mesh.describe(1) != (odd ? "rank 3 (sequence 1)" : "rank 2 (sequence 1)"))
      throw Error(mesh.describe(1));
  });
  CHECK(errors == "");
}

TEST_CASE("a rank alone is a mesh of one") {
  const Mesh mesh;
  CHECK(mesh.world().size() == 1);
  CHECK(mesh.size("data") == 1);
  CHECK(mesh.group("tensor").size() == 1);
  CHECK(mesh.joint_group({"data", "tensor"}).size() == 1);
  CHECK(mesh.describe(0) == "rank 0");
  CHECK(mesh.layout().pipeline == 1);
  const Mesh one(Group(), {{"data", -1}, {"tensor", 1}});
  CHECK(one.size("data") == 1);
  CHECK_THROWS_AS(mesh.group("model"), Error);
  CHECK_THROWS_AS(Mesh(Group(), Layout{.tensor = 2}), Error);
  CHECK_THROWS_AS(mesh.describe(1), Error);
}

TEST_CASE("rank: meshes of other sizes" * doctest::skip()) {
  const World world = launch_from_env();
  const int tensor = world.rank == 3 ? 2 : 1;
  std::string error;
  try {
    const Mesh mesh(world.group(), {{"data", 4 / tensor}, {"tensor", tensor}});
  } catch (const Error& refusal) {
    error = refusal.what();
  }
  CHECK(error.find("differ among ranks; rank 3 differs from rank 0") != error.npos);
}
TEST_CASE("ranks whose meshes have other sizes are told at once") {
  run_on_four("rank: meshes of other sizes");
}
