// On which machines the members of a group are.
#pragma once

#include <string>
#include <vector>

namespace booster {

struct Membership;

// A machine is where ranks can share memory: see Rendezvous::machine().
class Machines {
 public:
  // Asks all members; all of them must call it.
  static Machines of(const Membership& members);
  // The name of each member's machine, by rank.
  explicit Machines(const std::vector<std::string>& names);

  // Machines count in the order of their first members.
  int count() const { return static_cast<int>(members_.size()); }
  int members() const { return static_cast<int>(machine_of_.size()); }
  int of(int rank) const { return machine_of_[rank]; }
  // The ranks on a machine, the least first.
  const std::vector<int>& on(int machine) const { return members_[machine]; }
  // A rank's place in on(of(rank)).
  int place_of(int rank) const { return place_of_[rank]; }
  int most_members() const;
  // Whether the ranks of each machine follow one another.
  bool are_runs() const;
  // Who handles the lane `lane` of what moves between machines.
  int owner(int machine, int lane) const {
    return members_[machine][lane % static_cast<int>(members_[machine].size())];
  }

 private:
  std::vector<std::vector<int>> members_;
  std::vector<int> machine_of_, place_of_;
};

}  // namespace booster
