// Who belongs to a group, and where its members meet.
#pragma once

#include "parallel/rendezvous/rendezvous.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

struct Membership {
  std::string name = "alone";              // a file name, unique in the run
  std::vector<int> ranks = {0};            // ranks of the world, in the order of the group
  int rank = 0;                            // own place in `ranks`
  std::shared_ptr<Rendezvous> rendezvous;  // null when alone

  int size() const { return static_cast<int>(ranks.size()); }
  // A member's rank in the world and its place on the mesh, without and with its process; see
  // Rendezvous.
  std::string name_of(int group_rank) const;
  std::string describe(int group_rank) const;
  // Whether all members say yes to `question`, a file name. All must call it, once in a run.
  bool all_say(const std::string& question, bool own) const;
};

}  // namespace booster
