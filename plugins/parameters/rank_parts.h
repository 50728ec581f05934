// A tensor's elements in as many ranges as there are ranks: each takes the same number, the last
// ones what is left. It depends on nothing but both numbers, so a part keeps its meaning when
// buckets, dtypes or other parameters change.
#pragma once

#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <algorithm>

namespace booster {

struct RankParts {
  int64_t numel = 0;
  int ranks = 1;

  // Elements of a part with its padding.
  int64_t padded() const { return (numel + ranks - 1) / ranks; }
  ElementRange of(int rank) const {
    return {std::min(numel, rank * padded()), std::min(numel, (rank + 1) * padded())};
  }
};

// A flat window on some elements of a dense tensor.
inline Tensor flat_window(const Tensor& x, ElementRange range) {
  return untracked::narrow(untracked::reshape(x.detach(), {-1}), 0, range.begin, range.size());
}

// Parts of several tensors side by side, as collectives move them: the parts of rank 0, then those
// of rank 1, and so on. All are of one dtype and device.
class PackedParts {
 public:
  explicit PackedParts(int ranks) : ranks_(ranks) {}
  void add(int64_t numel) {
    offsets_.push_back(part_);
    tensors_.push_back({numel, ranks_});
    part_ += tensors_.back().padded();
  }

  size_t count() const { return tensors_.size(); }
  // Elements of one rank.
  int64_t part() const { return part_; }
  int64_t elements() const { return part_ * ranks_; }
  const RankParts& parts(size_t tensor) const { return tensors_[tensor]; }

  // Where the part of `rank` stands, without padding, in what holds the parts of all ranks, and in
  // what holds that rank's alone.
  Tensor place(const Tensor& all, size_t tensor, int rank) const {
    return flat_window(all, range_at(rank * part_, tensor, rank));
  }
  Tensor own_place(const Tensor& own, size_t tensor, int rank) const {
    return flat_window(own, range_at(0, tensor, rank));
  }
  // A whole dense tensor, or zeros for an undefined one, goes to its places; padding becomes 0.
  void pack(const Tensor& all, size_t tensor, const Tensor& whole) const;
  // The parts come back as a whole.
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

// A whole tensor and back, for Plugin::join and split. On rank 0 the whole from what each rank has
// of it, `part` here, of any shape; on the others `part`. Nobody but rank 0 needs memory for it.
Tensor joined_on_first(const Tensor& part, const Shape& whole, const Group& group);
// This rank's part of the whole, in memory of its own: of one dimension, or of the whole's shape if
// it is all of it, as optimizers keep what they own.
Tensor part_of(const Tensor& whole, const Group& group);

}  // namespace booster
