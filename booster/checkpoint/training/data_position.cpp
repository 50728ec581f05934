#include "booster/checkpoint/training/data_position.h"

#include "core/data/stream_position.h"
#include "platform/error.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <set>

namespace booster {

namespace {

constexpr int64_t largest_tried = 4096;  // largest value that an error proposes
constexpr size_t most_named = 6;

// Returns the divisors of `whole` nearest to `near`, as "1, 2 and 4"; "" if there are none.
std::string divisors_near(int64_t whole, int64_t near) {
  std::vector<int64_t> fitting;
  for (int64_t n = 1; n <= std::min(whole, largest_tried); ++n)
    if (whole % n == 0) fitting.push_back(n);
  std::ranges::sort(fitting, {}, [&](int64_t n) { return std::pair(std::abs(n - near), n); });
  fitting.resize(std::min(fitting.size(), most_named));
  std::ranges::sort(fitting);
  std::string text;
  for (size_t i = 0; i < fitting.size(); ++i) {
    const char* before = i == 0 ? "" : i + 1 == fitting.size() ? " or " : ", ";
    text += before + std::to_string(fitting[i]);
  }
  return text;
}

[[noreturn]] void fits_no_step(int64_t done, const DataPosition& now, const std::string& what) {
  std::string want;
  if (done % now.shares == 0)
    want += fmt::format("batch_size {} on {} ranks, ",
                        divisors_near(done / now.shares, now.batch_size), now.shares);
  if (done % now.batch_size == 0)
    want += fmt::format("{} ranks of batch_size {}, ",
                        divisors_near(done / now.batch_size, now.shares), now.batch_size);
  fail_data(
      "{}: {} samples of the epoch are done, no whole number of steps; got batch_size {} on {} "
      "ranks, {} samples a step, want {}or a checkpoint from between two epochs",
      what, done, now.batch_size, now.shares, now.samples_per_step(), want);
}

}  // namespace

DataPosition data_position(const DataLoader& loader) {
  const DataLoaderOptions& options = loader.options();
  return {loader.state(), options.batch_size, options.world_size,
          reads_stream(loader) ? 0 : loader.size()};
}

std::string places_of_ranks(const std::string& own, const DataLoader& loader, const Group& group) {
  std::map<int64_t, std::string> places;  // ranks that see the same samples have the same one
  const std::vector<std::string> all = gather_text(own, group);
  std::vector<int64_t> mine = {loader.options().rank}, ranks(all.size());
  group.all_gather(ranks, mine);
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].empty()) places.emplace(ranks[i], all[i]);
  if (places.empty()) return {};
  std::vector<std::string> by_rank;
  for (const auto& [rank, place] : places) by_rank.push_back(place);
  return joined_positions(by_rank);
}

void check_places(const std::string& places, const DataLoader& loader, const std::string& what) {
  if (places.empty()) return;
  try {
    check(reads_stream(loader), "a place in a stream; got a data set with an index");
    const auto& stream = dynamic_cast<const StreamDataset&>(loader.dataset());
    stream_position(places, stream.shards(), loader.options());
  } catch (const Error& error) {
    fail_data("{}: {}", what, error.what());
  }
}

uint64_t order_part(const DataLoader& loader, uint64_t epoch) {
  if (reads_stream(loader)) return 0;
  const DataLoaderOptions& options = loader.options();
  const int64_t samples = loader.dataset().size();
  uint64_t sum = 0;
  int64_t place = options.rank;
  for (const int64_t index : options.sampler->indices(epoch)) {
    if (place >= samples) break;
    Fingerprint one;
    one.add(place);
    one.add(index);
    sum += one.value();
    place += options.world_size;
  }
  return sum;
}

uint64_t order_of_ranks(uint64_t part, const DataLoader& loader, const Group& group) {
  std::vector<int64_t> mine = {loader.options().rank, std::bit_cast<int64_t>(part)};
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(group.size()));
  group.all_gather(all, mine);
  std::set<int64_t> counted;  // ranks that see the same samples count once
  uint64_t sum = 0;
  for (size_t i = 0; i < all.size(); i += 2)
    if (counted.insert(all[i]).second) sum += std::bit_cast<uint64_t>(all[i + 1]);
  return sum;
}

LoaderState moved_position(const DataPosition& saved, const DataPosition& now, int64_t samples,
                           const std::string& what) {
  if (!saved.at.stream.empty()) return saved.at;
  const auto& [epoch, batch, place] = saved.at;
  const bool same = saved.batch_size == now.batch_size && saved.shares == now.shares;
  const int64_t batches = same ? now.batches : saved.batches;
  if (batch > batches) {
    fail_data("{}: no such position in the data; got batch {}, want 0 to {}", what, batch, batches);
  }
  if (same || batch == 0) return saved.at;
  if (batch == saved.batches) return {epoch, now.batches};
  int64_t done = 0;
  if (__builtin_mul_overflow(saved.batch_size, saved.shares, &done) ||
      __builtin_mul_overflow(done, batch, &done) || done <= 0 || done > samples) {
    fail_data(
        "{}: no such position in the data; got {} batches of {} on {} ranks, want at most {} "
        "samples",
        what, batch, saved.batch_size, saved.shares, samples);
  }
  if (done % now.samples_per_step() != 0) fits_no_step(done, now, what);
  const int64_t steps = done / now.samples_per_step();
  if (steps > now.batches) {
    fail_data("{}: no such position in the data; got step {} of the epoch, want 0 to {}", what,
              steps, now.batches);
  }
  return {epoch, steps};
}

}  // namespace booster
