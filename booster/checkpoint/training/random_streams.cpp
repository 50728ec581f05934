#include "booster/checkpoint/training/random_streams.h"

#include <algorithm>
#include <bit>

namespace booster {

namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", OOPSLA'14).
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<RandomState> random_streams(const Group& group) {
  const RandomState mine = default_generator().state();
  std::vector<int64_t> own = {std::bit_cast<int64_t>(mine.seed),
                              std::bit_cast<int64_t>(mine.offset)};
  std::vector<int64_t> all(own.size() * static_cast<size_t>(group.size()));
  group.all_gather(all, own);
  std::vector<RandomState> states;
  for (size_t i = 0; i < all.size(); i += 2)
    states.push_back({std::bit_cast<uint64_t>(all[i]), std::bit_cast<uint64_t>(all[i + 1])});
  return states;
}

std::vector<RandomState> streams_to_resume(std::vector<RandomState> saved,
                                           const std::vector<RandomState>& now) {
  const bool alike = std::ranges::all_of(
      now, [&](const RandomState& stream) { return stream.seed == now[0].seed; });
  const RandomState first = saved.at(0);
  for (size_t rank = saved.size(); rank < now.size(); ++rank)
    saved.push_back(
        alike ? first : RandomState{mixed(mixed(mixed(first.seed) + first.offset) + rank), 0});
  saved.resize(now.size());
  return saved;
}

}  // namespace booster
