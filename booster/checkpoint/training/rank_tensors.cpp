#include "booster/checkpoint/training/rank_tensors.h"

#include "parallel/groups/group.h"
#include "platform/json/json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace booster {
namespace {

constexpr std::string_view any_rank = "rank ";  // no name of a layer holds a space and a colon

std::string prefix_of(int rank) { return fmt::format("{}{}: ", any_rank, rank); }

bool is_by_rank(const NamedTensor& one) {
  return one.name.starts_with(any_rank) && one.name.find(": ") != std::string::npos;
}

// What another rank must know to receive them.
std::string described(const StateDict& tensors) {
  auto rows = nlohmann::json::array();
  for (const auto& [name, tensor] : tensors) {
    std::vector<int64_t> sizes;
    for (int i = 0; i < tensor.ndim(); ++i) sizes.push_back(tensor.size(i));
    rows.push_back({name, static_cast<int>(tensor.dtype()), sizes});
  }
  return rows.dump();
}

StateDict received(const std::string& description, int from, const Group& group) {
  StateDict tensors;
  for (const auto& row : json_from(description)) {
    Shape shape;
    for (const int64_t size : row.at(2).get<std::vector<int64_t>>()) shape.push_back(size);
    const Tensor tensor = empty(shape, {.dtype = static_cast<DType>(row.at(1).get<int>())});
    group.receive(tensor, from);
    tensors.push_back({row.at(0), tensor});
  }
  return tensors;
}

}  // namespace

StateDict tensors_of_ranks(const StateDict& own, const Group& group) {
  if (group.size() == 1) return own;
  const std::vector<std::string> descriptions = gather_text(described(own), group);
  if (group.rank() != 0) {
    for (const auto& [name, tensor] : own) group.send(untracked::contiguous(tensor), 0);
    return {};
  }
  StateDict all;
  for (int rank = 0; rank < group.size(); ++rank)
    for (const auto& [name, tensor] :
         rank == 0 ? own : received(descriptions[static_cast<size_t>(rank)], rank, group))
      all.push_back({prefix_of(rank) + name, tensor});
  return all;
}

StateDict tensors_of_rank(const StateDict& saved, int rank) {
  if (std::ranges::none_of(saved, is_by_rank)) return saved;
  std::string prefix = prefix_of(rank);
  const auto is_own = [&](const NamedTensor& one) { return one.name.starts_with(prefix); };
  if (std::ranges::none_of(saved, is_own)) prefix = prefix_of(0);
  StateDict own;
  for (const auto& [name, tensor] : saved)
    if (name.starts_with(prefix)) own.push_back({name.substr(prefix.size()), tensor});
  return own;
}

}  // namespace booster
