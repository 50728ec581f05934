// Divides a tensor's elements into one range per rank. All ranges have the same length, except that
// the last ones may be shorter. A part depends only on the numbers of elements and ranks, so it
// stays valid when buckets, dtypes or other parameters change.
#pragma once

#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <algorithm>

namespace booster {

struct RankParts {
  int64_t numel = 0;
  int ranks = 1;

  // Returns the elements of a part with its padding.
  int64_t padded() const { return (numel + ranks - 1) / ranks; }
  ElementRange of(int rank) const {
    return {std::min(numel, rank * padded()), std::min(numel, (rank + 1) * padded())};
  }
};

// Returns a flat window of some elements of a dense tensor.
inline Tensor flat_window(const Tensor& x, ElementRange range) {
  return untracked::narrow(untracked::reshape(x.detach(), {-1}), 0, range.begin, range.size());
}

// Parts of several tensors side by side, in the order of collectives: all parts of rank 0, then of
// rank 1, and so on. All are of one dtype and device.
class PackedParts {
 public:
  explicit PackedParts(int ranks) : ranks_(ranks) {}
  void add(int64_t numel) {
    offsets_.push_back(part_);
    tensors_.push_back({numel, ranks_});
    part_ += tensors_.back().padded();
  }

  size_t count() const { return tensors_.size(); }
  // Returns the elements that one rank holds.
  int64_t part() const { return part_; }
  int64_t elements() const { return part_ * ranks_; }
  const RankParts& parts(size_t tensor) const { return tensors_[tensor]; }

  // Return the place of a rank's part of a tensor, without padding. `all` holds all ranks' parts,
  // `own` holds one rank's.
  Tensor place(const Tensor& all, size_t tensor, int rank) const {
    return flat_window(all, range_at(rank * part_, tensor, rank));
  }
  Tensor own_place(const Tensor& own, size_t tensor, int rank) const {
    return flat_window(own, range_at(0, tensor, rank));
  }
  // Copies a whole dense tensor, or zeros for an undefined one, to its places; padding becomes 0.
  void pack(const Tensor& all, size_t tensor, const Tensor& whole) const;
  // Copies the parts back into a whole tensor.
  void unpack(const Tensor& all, size_t tensor, const Tensor& whole) const;

 private:
  ElementRange range_at(int64_t start, size_t tensor, int rank) const {
    const int64_t begin = start + offsets_[tensor];
    return {begin, begin + tensors_[tensor].of(rank).size()};
  }

  int ranks_;
  int64_t part_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<RankParts> tensors_;
};

// Joins a sharded tensor on rank 0, for Plugin::join. `part` is this rank's part, of any shape.
// Returns the whole on rank 0, and `part` on the others, which need no memory for the whole.
Tensor joined_on_first(const Tensor& part, const Shape& whole, const Group& group);
// Returns this rank's part of the whole, in its own memory, for Plugin::split. It has one
// dimension, or the whole's shape if the part is everything: the form in which optimizers keep
// their parts.
Tensor part_of(const Tensor& whole, const Group& group);

}  // namespace booster
