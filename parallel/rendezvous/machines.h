// Assigns the members of a group to machines.
#pragma once

#include <string>
#include <vector>

namespace booster {

struct Membership;

// A machine is a set of ranks that can share memory: see Rendezvous::machine().
class Machines {
 public:
  // Queries all members; collective over them.
  static Machines of(const Membership& members);
  // `names`: the name of each member's machine, by rank.
  explicit Machines(const std::vector<std::string>& names);

  // Machines are numbered in the order of their first members.
  int count() const { return static_cast<int>(members_.size()); }
  int members() const { return static_cast<int>(machine_of_.size()); }
  int of(int rank) const { return machine_of_[rank]; }
  // Returns the ranks on a machine, ascending.
  const std::vector<int>& on(int machine) const { return members_[machine]; }
  // Returns the index of a rank in on(of(rank)).
  int place_of(int rank) const { return place_of_[rank]; }
  int most_members() const;
  // Returns whether each machine's ranks are consecutive.
  bool are_runs() const;
  // Returns the rank on `machine` that handles lane `lane` of the data between machines.
  int owner(int machine, int lane) const {
    return members_[machine][lane % static_cast<int>(members_[machine].size())];
  }

 private:
  std::vector<std::vector<int>> members_;
  std::vector<int> machine_of_, place_of_;
};

}  // namespace booster
