// Ranks: World (this process's rank, by its launcher), Layout and Axes (how ranks are arranged, as
// plain values), and Mesh.
//
// Mesh: a world's ranks along named axes, with a group along each axis.
//
// A 2 x 3 mesh of data and tensor holds ranks 0 to 5 as
//     0 1 2
//     3 4 5
// where each row is a tensor group and each column a data group. A handle; copies share one mesh.
// After construction, errors of collectives name a rank's place on the latest mesh: "rank 5 (data
// 1, tensor 2; pid 4242 on host)". Programs that end by any other error name it too
// (name_of_this_rank() in parallel/rendezvous/rank_notes.h). Thread rules are as for Group.
#pragma once

#include "parallel/groups/group.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace booster {

// --- How a model is distributed, as plain values for both precision strategies and plugins.

// Ranks along each axis; their product is the world's size.
struct Layout {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int sequence = 1;
  int zero_stage = 0;  // 0 none, 1 optimizer state, 2 also gradients, 3 also parameters

  bool is_data_alone() const { return tensor * pipeline * sequence == 1; }
  int64_t ranks() const { return int64_t{data} * tensor * pipeline * sequence; }
};

// The set of ranks on which values become equal.
enum class Among : uint8_t {
  everybody,    // all that train together: decides whether a step is skipped
  same_layers,  // ranks with the same layers or parts of them: magnitudes of each layer
};

// A pass through the model. A forward pass is one call of the model; a backward pass is for one
// loss, or for all microbatches of a pipeline.
enum class Pass : uint8_t { forward, backward };

// --- Axes: a world's ranks along named axes, as pure arithmetic; Mesh adds the groups.
//
// Row-major: the last axis varies fastest, as in torch's init_device_mesh. The names are Layout's
// fields: data, pipeline, sequence, tensor. A plain value; thread-safe.

struct Axis {
  std::string name;
  int size;  // -1, for one axis of a list: derived from the other sizes
};

// Returns a layout's axes, including axes of size 1: data outermost, then pipeline, sequence,
// tensor. Ranks of one tensor group, which communicate most, are thus adjacent.
std::vector<Axis> axes_of(const Layout& layout);

class Axes {
 public:
  // Makes axes of one rank, without names.
  Axes() = default;
  // Makes axes of these sizes. Throws, and lists sizes that fit, unless their product is `ranks`.
  // Also throws for a size below 1, and for an unknown or repeated name.
  Axes(int ranks, std::vector<Axis> axes);

  int ranks() const { return ranks_; }
  // Returns the axes in nesting order, with -1 replaced.
  const std::vector<Axis>& list() const { return axes_; }

  // Returns the size of an axis. An axis that is not in the list has size 1, and every place on it
  // is 0. These and the following functions throw for an unknown name, and for a rank outside 0 to
  // ranks() - 1.
  int size(const std::string& axis) const;
  int place(int rank, const std::string& axis) const;
  // Returns the ranks whose place differs from this rank's only along `axes`, in ascending order.
  // Throws for a repeated name.
  std::vector<int> ranks_along(int rank, const std::vector<std::string>& axes) const;

  // Returns "data 1, tensor 0": the places along axes of more than one rank; "" if there are none.
  std::string describe(int rank) const;
  Layout layout() const;

 private:
  void check_rank(int rank) const;
  // Returns the difference of ranks between adjacent places along the axis.
  int stride(const std::string& axis) const;

  int ranks_ = 1;
  std::vector<Axis> axes_;
};

// --- the mesh

class Mesh {
 public:
  // Makes a mesh of this rank alone.
  Mesh();
  // Puts all ranks of `world` along one axis, data. Collective over them.
  Mesh(const Group& world) : Mesh(world, {{"data", world.size()}}) {}
  // Arranges the ranks of `world` along these axes. Collective, with the same axes on all. At most
  // one size may be -1: it is derived from the others. Throws as Axes does.
  Mesh(const Group& world, std::vector<Axis> axes);
  // Arranges them in the default nesting order: see axes_of().
  Mesh(const Group& world, const Layout& layout) : Mesh(world, axes_of(layout)) {}

  const Group& world() const;
  // Returns the names and sizes, and each rank's place.
  const Axes& axes() const;
  // Returns the ranks along the axis; 1 for an axis that the mesh does not have. Throws for an
  // unknown name.
  int size(const std::string& axis) const;
  // Returns this rank's coordinate on the axis.
  int place(const std::string& axis) const;
  // Returns the group of ranks that differ from this one only along the axis, in the order of their
  // places. A rank in the group is its place. Returns the world itself if the axis covers it.
  const Group& group(const std::string& axis) const;
  // Returns the group along several axes together, in rank order. The first call makes it, so all
  // its members must call.
  Group joint_group(const std::vector<std::string>& axes) const;
  // Returns the sizes. A mesh has no ZeRO stage.
  Layout layout() const;
  // Returns "rank 5 (data 1, tensor 2)" for a rank of world(); omits axes of size 1.
  std::string describe(int rank) const;

 private:
  struct State;
  Handle<State, "mesh"> state_;
};

// --- World: this process's rank, read from the environment of its launcher.
//
// Launchers: `booster run` and torchrun (RANK, WORLD_SIZE, ...), Open MPI, MPICH and Slurm; without
// one, the process is the only rank. Thread-safe.

struct World {
  int rank = 0, size = 1;              // among all processes
  int local_rank = 0, local_size = 1;  // among this machine's processes
  std::string launcher = "alone";  // or "torchrun" (and the run tool), "Open MPI", "MPICH", "Slurm"
  std::string place;  // ranks' meeting place (parallel/rendezvous/rendezvous.h); "" if alone
  std::string job;    // what the ranks compare there (parallel/rendezvous/job.h)

  // Returns the group of all ranks. The first call makes it, and all ranks must meet there; every
  // call in this process returns the same group.
  Group group() const;
};

// Reads the World. Throws an error that names the variable if a value is missing, malformed or
// contradicts another. Unless the number of threads of this thread's kernels is already set, the
// processes of this machine share its processors from now on. Otherwise each process would use all
// of them.
World launch_from_env();

// Restarts this rank's default generator (core/tensor/random/random.h). Ranks at different places
// along the axis data then draw different numbers; ranks at one place draw the same ones. It is for
// draws of the program's own: passes of a boosted model draw apart without it. Call it after the
// model has its weights.
void seed_ranks(uint64_t seed, const Mesh& mesh);

}  // namespace booster
