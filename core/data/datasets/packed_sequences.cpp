#include "core/data/datasets/texts.h"
#include "core/data/loader.h"
#include "platform/error.h"

#include <algorithm>
#include <bit>

namespace booster {
namespace {

// The room that is left in each row, and the first row with enough of it: a tree whose nodes hold
// the most room below them.
class Rooms {
 public:
  Rooms(size_t rows, int64_t room)
      : leaves_(std::bit_ceil(std::max<size_t>(rows, 1))), most_(2 * leaves_, room) {}

  // Takes `count` places of the first row that has them, and returns the row.
  size_t take(int64_t count) {
    size_t node = 1;
    while (node < leaves_) node = most_[2 * node] >= count ? 2 * node : 2 * node + 1;
    const size_t row = node - leaves_;
    most_[node] -= count;
    while (node /= 2) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    return row;
  }

 private:
  size_t leaves_;
  std::vector<int64_t> most_;
};

void check_end(const TokenSequences& sequences, int64_t i, int32_t document_end) {
  int64_t token = 0, label = 0;
  sequences.read(i, sequences.length(i) - 1, {&token, 1}, {&label, 1});
  check(token == document_end,
        "PackedSequences: sequence {} does not end with the token that ends documents; got {}, "
        "want {} (end_token of Conversations adds it)",
        i, token, document_end);
}

}  // namespace

PackedSequences::PackedSequences(std::shared_ptr<const TokenSequences> sequences,
                                 PackedOptions options)
    : sequences_(std::move(sequences)), options_(options) {
  check(options_.length >= 2, "PackedSequences: length; got {}, want 2 or more", options_.length);
  std::vector<Piece> pieces;
  const int64_t count = sequences_->size();
  if (count > 0)
    for (const int64_t i : RandomSampler(count, options_.seed).indices(0))
      for (const Piece& piece : pieces_of(i)) pieces.push_back(piece);
  if (pieces.empty())
    fail_data("PackedSequences: none of {} sequences has a label within {} tokens", count,
              options_.length);
  Rooms rooms(pieces.size(), options_.length);
  std::vector<size_t> row_of;
  for (const Piece& piece : pieces) row_of.push_back(rooms.take(piece.count));
  rows_.resize(*std::ranges::max_element(row_of) + 2);
  for (const size_t row : row_of) ++rows_[row + 1];
  for (size_t row = 1; row < rows_.size(); ++row) rows_[row] += rows_[row - 1];
  pieces_.resize(pieces.size());
  std::vector<int64_t> next = rows_;
  for (size_t i = 0; i < pieces.size(); ++i)
    pieces_[static_cast<size_t>(next[row_of[i]]++)] = pieces[i];
  for (int64_t i = 0; i < count; ++i) {
    check_end(*sequences_, i, options_.document_end);
    if (pieces_of(i).empty()) ++left_out_;
  }
}

// A last piece of one token would hold the end alone, whose label is ignored.
std::vector<PackedSequences::Piece> PackedSequences::pieces_of(int64_t sequence) const {
  const int64_t all = sequences_->length(sequence);
  if (!options_.split) {
    if (sequences_->first_label(sequence) >= options_.length) return {};
    return {{sequence, 0, std::min(all, options_.length)}};
  }
  std::vector<Piece> pieces;
  for (int64_t start = 0; start + 1 < all; start += options_.length)
    pieces.push_back({sequence, start, std::min(all - start, options_.length)});
  return pieces;
}

Sample PackedSequences::load(int64_t index, RandomStream&) const {
  check(index >= 0 && index < size(), "PackedSequences: index out of range; got {}, want 0 to {}",
        index, size() - 1);
  std::vector<int64_t> tokens(static_cast<size_t>(options_.length), options_.document_end),
      labels(tokens.size(), ignored_token);
  size_t at = 0;
  const auto row = static_cast<size_t>(index);
  for (int64_t i = rows_[row]; i < rows_[row + 1]; ++i) {
    const auto& [sequence, start, count] = pieces_[static_cast<size_t>(i)];
    const auto size = static_cast<size_t>(count);
    sequences_->read(sequence, start, std::span(tokens).subspan(at, size),
                     std::span(labels).subspan(at, size));
    at += size;
  }
  return {from_vector(tokens, {options_.length}), from_vector(labels, {options_.length})};
}

double PackedSequences::fill() const {
  int64_t held = 0;
  for (const Piece& piece : pieces_) held += piece.count;
  return static_cast<double>(held) / static_cast<double>(size() * options_.length);
}

DatasetIdentity PackedSequences::identity() const {
  Fingerprint fingerprint;
  fingerprint.add(static_cast<int64_t>(sequences_->fingerprint()));
  fingerprint.add(options_.length);
  fingerprint.add(options_.document_end);
  fingerprint.add(static_cast<int64_t>(options_.seed));
  fingerprint.add(options_.split ? 1 : 0);
  return {.kind = "packed tokens", .samples = size(), .fingerprint = fingerprint.value()};
}

}  // namespace booster
