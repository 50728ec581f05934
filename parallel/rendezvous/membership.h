// The members of a group, and where they meet.
#pragma once

#include "parallel/rendezvous/rendezvous.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

struct Membership {
  std::string name = "alone";              // a file name, unique in the run
  std::vector<int> ranks = {0};            // ranks of the world, in the order of the group
  int rank = 0;                            // index of this rank in `ranks`
  std::shared_ptr<Rendezvous> rendezvous;  // null if alone

  int size() const { return static_cast<int>(ranks.size()); }
  // Returns a member's rank in the world and its place on the mesh, without and with its process:
  // see Rendezvous.
  std::string name_of(int group_rank) const;
  std::string describe(int group_rank) const;
  // Returns whether all members answer `question`, a file name, with true. Collective; once per
  // run.
  bool all_say(const std::string& question, bool own) const;
};

}  // namespace booster
