// Mesh: a world's ranks along named axes, with a group along each axis.
//
// A 2 x 3 mesh of data and tensor holds ranks 0 to 5 as
//     0 1 2
//     3 4 5
// where each row is a tensor group and each column a data group. A handle; copies share one mesh.
// After construction, errors of collectives name a rank's place on the latest mesh: "rank 5 (data
// 1, tensor 2; pid 4242 on host)". So do programs that end by any other error (name_of_this_rank()
// in parallel/rendezvous/rank_notes.h). Thread rules are as for Group.
#pragma once

#include "parallel/axes.h"
#include "parallel/groups/group.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class Mesh {
 public:
  // Only this rank.
  Mesh();
  // All ranks of `world` along one axis, data. Collective over them.
  Mesh(const Group& world) : Mesh(world, {{"data", world.size()}}) {}
  // Collective over all ranks of `world`, with the same axes. At most one size may be -1: what the
  // others leave. Throws as Axes does.
  Mesh(const Group& world, std::vector<Axis> axes);
  // In the default nesting order: see axes_of().
  Mesh(const Group& world, const Layout& layout) : Mesh(world, axes_of(layout)) {}

  const Group& world() const;
  // The names and sizes, and each rank's place.
  const Axes& axes() const;
  // Ranks along the axis; 1 for an axis that the mesh does not have. Throws for an unknown name.
  int size(const std::string& axis) const;
  // This rank's coordinate on the axis.
  int place(const std::string& axis) const;
  // The ranks that differ from this one only along the axis, in the order of their places: a rank
  // in the group is its place. The world itself if the axis covers it.
  const Group& group(const std::string& axis) const;
  // The same along several axes together, in rank order. The first call makes it: all its members
  // must call.
  Group joint_group(const std::vector<std::string>& axes) const;
  // The sizes. A mesh has no ZeRO stage.
  Layout layout() const;
  // Returns "rank 5 (data 1, tensor 2)" for a rank of world(); omits axes of size 1.
  std::string describe(int rank) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace booster
