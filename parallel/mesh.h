// Mesh: the ranks of a world along named axes, with a group along each.
//
// A 2 x 3 mesh of data and tensor holds ranks 0 to 5 as
//     0 1 2
//     3 4 5
// where each row is a tensor group and each column a data group. A handle; copies share one mesh.
// Once it is made, errors of collectives say where a rank stands, on the last mesh that was made:
// "rank 5 (data 1, tensor 2; pid 4242 on host)". So does a program that ends by an error of any
// other kind (name_of_this_rank() in parallel/rendezvous/rank_notes.h). The thread rules are those
// of Group.
#pragma once

#include "parallel/axes.h"
#include "parallel/groups/group.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class Mesh {
 public:
  // This rank alone.
  Mesh();
  // All ranks of `world` along one axis, data; all must call it.
  Mesh(const Group& world) : Mesh(world, {{"data", world.size()}}) {}
  // All ranks of `world` must call it, with the same axes. A size of -1, of one axis at most, is
  // what the others leave. Errors as of Axes.
  Mesh(const Group& world, std::vector<Axis> axes);
  // In the default order of nesting: see axes_of().
  Mesh(const Group& world, const Layout& layout) : Mesh(world, axes_of(layout)) {}

  const Group& world() const;
  // The names and sizes, and which rank is where.
  const Axes& axes() const;
  // Ranks along the axis; 1 for an axis that the mesh does not have. Error for an unknown name.
  int size(const std::string& axis) const;
  // This rank's coordinate on the axis.
  int place(const std::string& axis) const;
  // The ranks that differ from this one only along the axis, in the order of their places; the rank
  // in it is the place. The world itself where the axis covers it.
  const Group& group(const std::string& axis) const;
  // The same along several axes together, in the order of ranks. Made when it is first asked for:
  // all its members must ask.
  Group joint_group(const std::vector<std::string>& axes) const;
  // The sizes. A mesh knows no ZeRO stage.
  Layout layout() const;
  // "rank 5 (data 1, tensor 2)", of a rank of world(); axes of size 1 are left out.
  std::string describe(int rank) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace booster
