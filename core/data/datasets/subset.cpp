#include "core/data/datasets/datasets.h"

#include "core/data/loader.h"
#include "platform/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

namespace booster {

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  check(dataset_ != nullptr, "Subset: no data set; got null");
  for (size_t i = 0; i < indices_.size(); ++i)
    check(indices_[i] >= 0 && indices_[i] < dataset_->size(),
          "Subset: index out of range; got {} at position {}, want 0 to {}", indices_[i], i,
          dataset_->size() - 1);
}

Sample Subset::load(int64_t index, RandomStream& random) const {
  return dataset_->load(indices_.at(static_cast<size_t>(index)), random);
}

Sample Subset::load_in_batch(int64_t index, std::span<const int64_t> batch,
                             RandomStream& random) const {
  std::vector<int64_t> inner;
  for (const int64_t one : batch) inner.push_back(indices_.at(static_cast<size_t>(one)));
  return dataset_->load_in_batch(indices_.at(static_cast<size_t>(index)), inner, random);
}

DatasetIdentity Subset::identity() const {
  DatasetIdentity whole = dataset_->identity();
  Fingerprint fingerprint;
  fingerprint.add(static_cast<int64_t>(whole.fingerprint));
  for (const int64_t index : indices_) fingerprint.add(index);
  return {.kind = "part of " + whole.kind,
          .samples = size(),
          .classes = whole.classes,
          .fingerprint = fingerprint.value()};
}

namespace {

bool are_fractions(const std::vector<double>& lengths) {
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  return sum <= 1 && std::abs(sum - 1) <= 1e-9;
}

std::vector<int64_t> lengths_of(const std::vector<double>& fractions, int64_t size) {
  std::vector<int64_t> lengths;
  for (const double fraction : fractions)
    lengths.push_back(static_cast<int64_t>(std::floor(static_cast<double>(size) * fraction)));
  const int64_t given = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  for (int64_t i = 0; i < size - given; ++i)
    ++lengths[static_cast<size_t>(i) % lengths.size()];
  return lengths;
}

std::vector<int64_t> whole_numbers(const std::vector<double>& lengths, int64_t size) {
  std::vector<int64_t> whole;
  for (const double length : lengths) whole.push_back(std::llround(length));
  const auto same = [](double a, int64_t b) { return a == static_cast<double>(b); };
  const bool are_whole = std::equal(lengths.begin(), lengths.end(), whole.begin(), same);
  check(are_whole && std::accumulate(whole.begin(), whole.end(), int64_t{0}) == size,
        "random_split: lengths do not fit; got {}, want numbers of samples that add up to {}, or "
        "fractions that add up to 1",
        fmt::join(lengths, ", "), size);
  return whole;
}

}  // namespace

std::vector<Subset> random_split(std::shared_ptr<const Dataset> dataset,
                                 const std::vector<double>& lengths, uint64_t seed) {
  for (const double length : lengths)
    check(length >= 0, "random_split: a length is below 0; got {}", length);
  check(dataset != nullptr, "random_split: no data set; got null");
  const int64_t size = dataset->size();
  const auto counts =
      are_fractions(lengths) ? lengths_of(lengths, size) : whole_numbers(lengths, size);
  const auto order = size > 0 ? RandomSampler(size, seed).indices(0) : std::vector<int64_t>{};
  std::vector<Subset> parts;
  auto at = order.begin();
  for (const int64_t count : counts) {
    parts.emplace_back(dataset, std::vector<int64_t>(at, at + count));
    at += count;
  }
  return parts;
}

}  // namespace booster
