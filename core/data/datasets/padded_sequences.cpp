#include "core/data/datasets/texts.h"
#include "platform/error.h"

#include <algorithm>

namespace booster {

PaddedSequences::PaddedSequences(std::shared_ptr<const TokenSequences> sequences,
                                 PaddedOptions options)
    : sequences_(std::move(sequences)), options_(options) {
  check(options_.length >= 1 && options_.multiple >= 1 && options_.length % options_.multiple == 0,
        "PaddedSequences: length or multiple out of range; got {} and {}, want 1 or more, and a "
        "length that is a multiple",
        options_.length, options_.multiple);
  for (int64_t i = 0; i < sequences_->size(); ++i)
    if (sequences_->first_label(i) < options_.length) kept_.push_back(i);
  if (kept_.empty())
    fail_data("PaddedSequences: none of {} sequences has a label within {} tokens",
              sequences_->size(), options_.length);
}

int64_t PaddedSequences::length_of(int64_t index) const {
  check(index >= 0 && index < size(), "PaddedSequences: index out of range; got {}, want 0 to {}",
        index, size() - 1);
  if (options_.to_length) return options_.length;
  const int64_t own =
      std::min(options_.length, sequences_->length(kept_[static_cast<size_t>(index)]));
  return (own + options_.multiple - 1) / options_.multiple * options_.multiple;
}

Sample PaddedSequences::load(int64_t index, RandomStream&) const {
  return padded(index, length_of(index));
}

Sample PaddedSequences::load_in_batch(int64_t index, std::span<const int64_t> batch,
                                      RandomStream&) const {
  int64_t longest = length_of(index);
  for (const int64_t one : batch) longest = std::max(longest, length_of(one));
  return padded(index, longest);
}

Sample PaddedSequences::padded(int64_t index, int64_t length) const {
  const int64_t sequence = kept_[static_cast<size_t>(index)];
  const auto count = static_cast<size_t>(std::min(length, sequences_->length(sequence)));
  std::vector<int64_t> tokens(static_cast<size_t>(length), options_.pad_token),
      labels(tokens.size(), ignored_token);
  sequences_->read(sequence, 0, std::span(tokens).first(count), std::span(labels).first(count));
  return {from_vector(tokens, {length}), from_vector(labels, {length})};
}

DatasetIdentity PaddedSequences::identity() const {
  Fingerprint fingerprint;
  fingerprint.add(static_cast<int64_t>(sequences_->fingerprint()));
  fingerprint.add(options_.length);
  return {.kind = "token sequences", .samples = size(), .fingerprint = fingerprint.value()};
}

}  // namespace booster
