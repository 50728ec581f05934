#include "parallel/rendezvous/machines.h"

#include "parallel/rendezvous/membership.h"
#include "platform/error.h"

#include <algorithm>

namespace booster {

// Ranks that meet in a folder are necessarily on one machine.
Machines Machines::of(const Membership& members) {
  std::vector<std::string> names(members.ranks.size());
  Rendezvous& rendezvous = *members.rendezvous;
  if (!rendezvous.folder().empty()) return Machines(names);
  const auto key = [](int rank) { return fmt::format("machine-{}", rank); };
  rendezvous.put(key(rendezvous.rank()), rendezvous.machine());
  for (size_t i = 0; i < names.size(); ++i)
    names[i] = rendezvous.get(key(members.ranks[i]), members.ranks);
  return Machines(names);
}

Machines::Machines(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const std::string& name : names) {
    const auto machine = static_cast<size_t>(std::ranges::find(known, name) - known.begin());
    if (machine == known.size()) {
      known.push_back(name);
      members_.emplace_back();
    }
    place_of_.push_back(static_cast<int>(members_[machine].size()));
    members_[machine].push_back(static_cast<int>(machine_of_.size()));
    machine_of_.push_back(static_cast<int>(machine));
  }
}

int Machines::most_members() const {
  size_t most = 0;
  for (const auto& members : members_) most = std::max(most, members.size());
  return static_cast<int>(most);
}

bool Machines::are_runs() const { return std::ranges::is_sorted(machine_of_); }

}  // namespace booster
