#include "parallel/rendezvous/membership.h"

#include "platform/error.h"

namespace booster {

std::string Membership::name_of(int group_rank) const {
  return rendezvous ? rendezvous->name(ranks[group_rank]) : "rank 0";
}

std::string Membership::describe(int group_rank) const {
  return rendezvous ? rendezvous->describe(ranks[group_rank]) : "rank 0";
}

bool Membership::all_say(const std::string& question, bool own) const {
  const auto key = [&](int member) { return fmt::format("{}.{}-{}", name, question, member); };
  rendezvous->put(key(rank), own ? "yes" : "no");
  bool all = true;
  for (int member = 0; member < size(); ++member)
    all = rendezvous->get(key(member), ranks) == "yes" && all;
  return all;
}

}  // namespace booster
