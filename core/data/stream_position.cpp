#include "core/data/stream_position.h"

#include "platform/error.h"
#include "platform/json/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace booster {
namespace {

using Json = nlohmann::json;

Json to_json(const ShardPosition& at) {
  if (!at.has_begun()) return at.shard;
  return {at.shard, at.read, at.state, at.block, at.given, at.chunk};
}

int64_t count_from(const Json& json, int64_t end) {
  if (!json.is_number_integer() || json < 0 || json >= end)
    fail_data("want a number of 0 to {}", end - 1);
  return json.get<int64_t>();
}

ShardPosition shard_from(const Json& json, int64_t shards) {
  constexpr int64_t most = int64_t{1} << 53;
  if (!json.is_array()) return {.shard = count_from(json, shards)};
  if (json.size() != 6 || !json[2].is_string()) fail_data("want six values of a shard");
  return {.shard = count_from(json[0], shards),
          .read = count_from(json[1], most),
          .state = json[2].get<std::string>(),
          .block = count_from(json[3], most),
          .given = count_from(json[4], json[3].get<int64_t>() + 1),
          .chunk = count_from(json[5], most)};
}

StreamPosition position_from(const Json& json, int64_t shards) {
  StreamPosition at;
  if (!json.is_object() || json.size() != 5) fail_data("want a rank's place");
  at.ranks = count_from(json.at("ranks"), int64_t{1} << 31);
  at.shards = count_from(json.at("shards"), int64_t{1} << 53);
  if (at.shards != shards)
    fail_data("was saved with another number of shards; got {} now, want {} to resume", shards,
              at.shards);
  at.is_whole = json.at("whole").get<bool>();
  at.repeats = json.at("repeats").get<bool>();
  std::vector<ShardPosition> rest;
  for (const Json& one : json.at("rest")) rest.push_back(shard_from(one, shards));
  at.queue = std::make_shared<const std::vector<ShardPosition>>(std::move(rest));
  return at;
}

// Returns what all ranks have left, for every rank: the first of each rank, then the second ones.
StreamPosition merged(std::vector<StreamPosition> parts, int64_t ranks) {
  if (parts[0].is_whole) parts.resize(1);  // all are the same
  std::vector<ShardPosition> rest;
  size_t longest = 0;
  for (const StreamPosition& part : parts)
    if (!part.repeats) longest = std::max(longest, part.queue->size());
  for (size_t i = 0; i < longest; ++i)
    for (const StreamPosition& part : parts)
      if (!part.repeats && i < part.queue->size()) rest.push_back((*part.queue)[i]);
  return {.ranks = ranks,
          .shards = parts[0].shards,
          .is_whole = true,
          .queue = std::make_shared<const std::vector<ShardPosition>>(std::move(rest))};
}

StreamPosition position_in(const Json& json, int64_t shards, const DataLoaderOptions& options) {
  const auto is_of_now = [&](const StreamPosition& at) { return at.ranks == options.world_size; };
  if (!json.is_array()) {
    const StreamPosition own = position_from(json, shards);
    if (!is_of_now(own))
      fail_data(
          "is one rank's place, saved by {} ranks; got {} ranks now, want the places of all ranks, "
          "as a checkpoint of the training keeps them",
          own.ranks, options.world_size);
    return own;
  }
  std::vector<StreamPosition> parts;
  for (const Json& one : json) parts.push_back(position_from(one, shards));
  const auto all = static_cast<int64_t>(parts.size());
  if (parts.empty() || std::ranges::any_of(parts, [&](const auto& at) { return at.ranks != all; }))
    fail_data("want a place of each rank; got {}", all);
  return is_of_now(parts[0]) ? parts[static_cast<size_t>(options.rank)]
                             : merged(std::move(parts), options.world_size);
}

}  // namespace

std::string text_of(const StreamPosition& position) {
  Json rest = Json::array();
  for (const ShardPosition& at : position.open) rest.push_back(to_json(at));
  for (size_t i = position.opened; i < position.queue->size(); ++i)
    rest.push_back(to_json((*position.queue)[i]));
  const Json all = {{"ranks", position.ranks},
                    {"shards", position.shards},
                    {"whole", position.is_whole},
                    {"repeats", position.repeats},
                    {"rest", rest}};
  try {
    return all.dump();
  } catch (const Json::type_error&) {
    fail("StreamReader: state() is not UTF-8; want text, such as JSON, or bytes as hex digits");
  }
}

StreamPosition stream_position(const std::string& text, int64_t shards,
                               const DataLoaderOptions& options) {
  try {
    return position_in(json_if_whole(text), shards, options);
  } catch (const std::exception& error) {
    fail_data("DataLoader: the position in the stream: {}", error.what());
  }
}

bool reads_stream(const DataLoader& loader) {
  return dynamic_cast<const StreamDataset*>(&loader.dataset()) != nullptr;
}

std::string joined_positions(const std::vector<std::string>& texts) {
  Json all = Json::array();
  for (const std::string& text : texts) all.push_back(json_from(text));
  return all.dump();
}

}  // namespace booster
