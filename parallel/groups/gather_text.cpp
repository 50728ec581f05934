#include "parallel/groups/group.h"

#include <algorithm>

namespace booster {

std::vector<std::string> gather_text(const std::string& mine, const Group& group) {
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> length = {static_cast<int64_t>(mine.size())}, lengths(ranks);
  group.all_gather(lengths, length);
  const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<uint8_t> own(longest), all(longest * ranks);
  std::copy(mine.begin(), mine.end(), own.begin());
  group.all_gather(all, own);
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const char* text = reinterpret_cast<const char*>(all.data()) + rank * longest;
    texts.emplace_back(text, static_cast<size_t>(lengths[rank]));
  }
  return texts;
}

std::function<std::vector<int64_t>(int64_t number)> gather_numbers(const Group& group) {
  return [group](int64_t number) {
    std::vector<int64_t> own = {number}, all(static_cast<size_t>(group.size()));
    group.all_gather(all, own);
    return all;
  };
}

}  // namespace booster
