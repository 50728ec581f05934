#include "parallel/mesh.h"

#include "parallel/rendezvous/rank_notes.h"
#include "platform/error.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace booster {

struct Mesh::State {
  Group world;
  Axes axes;
  std::map<std::vector<int>, Group> groups;  // made so far, by their ranks in the world

  // Returns the group along these axes. All members must call it. Axes of size 1 make no
  // difference, so groups are identified by their ranks and not by the names of the axes.
  const Group& group_along(const std::vector<std::string>& names) {
    const auto ranks = axes.ranks_along(world.rank(), names);
    if (static_cast<int>(ranks.size()) == world.size()) return world;
    const auto found = groups.find(ranks);
    return found != groups.end() ? found->second
                                 : groups.emplace(ranks, world.subgroup(ranks)).first->second;
  }
};

namespace {

// Throws if the axes differ among ranks, whose groups would wait for each other.
void check_same_axes(const Group& world, const Axes& axes) {
  if (world.size() == 1) return;
  std::string text;
  for (const Axis& axis : axes.list())
    if (axis.size > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name, axis.size);
  std::vector<int64_t> own = {static_cast<int64_t>(std::hash<std::string>()(text))};
  std::vector<int64_t> all(static_cast<size_t>(world.size()));
  world.all_gather(all, own);
  for (int rank = 0; rank < world.size(); ++rank)
    check(all[static_cast<size_t>(rank)] == all[0],
          "mesh: the sizes of its axes differ among ranks; rank {} differs from rank 0, and this "
          "rank has {}",
          world.world_ranks()[static_cast<size_t>(rank)], text);
}

}  // namespace

Mesh::Mesh() : state_(std::make_shared<State>()) {}

Mesh::Mesh(const Group& world, std::vector<Axis> axes)
    : state_(new State{world, Axes(world.size(), std::move(axes)), {}}) {
  check_same_axes(world, state_->axes);
  std::vector<std::string> places;
  for (int rank = 0; rank < world.size(); ++rank)
    places.push_back(state_->axes.describe(rank));
  world.name_places(places);
  if (world.size() > 1) name_this_rank(describe(world.rank()));
  // Made in the same order on every rank; otherwise ranks would wait for each other in a circle.
  for (const Axis& axis : state_->axes.list()) state_->group_along({axis.name});
}

const Group& Mesh::world() const { return state_->world; }
const Axes& Mesh::axes() const { return state_->axes; }
int Mesh::size(const std::string& axis) const { return state_->axes.size(axis); }
int Mesh::place(const std::string& axis) const {
  return state_->axes.place(state_->world.rank(), axis);
}
const Group& Mesh::group(const std::string& axis) const { return state_->group_along({axis}); }
Group Mesh::joint_group(const std::vector<std::string>& axes) const {
  return state_->group_along(axes);
}
Layout Mesh::layout() const { return state_->axes.layout(); }

std::string Mesh::describe(int rank) const {
  const std::string place = state_->axes.describe(rank);
  const std::string name = fmt::format("rank {}", world().world_ranks()[rank]);
  return place.empty() ? name : fmt::format("{} ({})", name, place);
}

}  // namespace booster
