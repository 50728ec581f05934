#include "plugins/parameters/rank_parts.h"

namespace booster {

void PackedParts::pack(const Tensor& all, size_t tensor, const Tensor& whole) const {
  const RankParts& parts = tensors_[tensor];
  for (int rank = 0; rank < ranks_; ++rank) {
    const ElementRange range = parts.of(rank);
    if (whole.defined()) place(all, tensor, rank).copy_(flat_window(whole, range));
    const int64_t start = rank * part_ + offsets_[tensor];
    const int64_t filled = whole.defined() ? range.size() : 0;
    flat_window(all, {start + filled, start + parts.padded()}).zero_();
  }
}

void PackedParts::unpack(const Tensor& all, size_t tensor, const Tensor& whole) const {
  for (int rank = 0; rank < ranks_; ++rank)
    flat_window(whole, tensors_[tensor].of(rank)).copy_(place(all, tensor, rank));
}

Tensor joined_on_first(const Tensor& part, const Shape& whole, const Group& group) {
  const Tensor mine = untracked::contiguous(part.detach());
  if (group.rank() != 0) {
    if (mine.numel() > 0) group.send(mine, 0);
    return part;
  }
  const Tensor result = empty(whole, {part.dtype(), part.device()});
  const RankParts parts{whole.numel(), group.size()};
  flat_window(result, parts.of(0)).copy_(untracked::reshape(mine, {-1}));
  for (int rank = 1; rank < group.size(); ++rank)
    if (parts.of(rank).size() > 0) group.receive(flat_window(result, parts.of(rank)), rank);
  return result;
}

Tensor part_of(const Tensor& whole, const Group& group) {
  const ElementRange range = RankParts{whole.numel(), group.size()}.of(group.rank());
  return range.size() == whole.numel() ? untracked::clone(whole)
                                       : untracked::clone(flat_window(whole, range));
}

}  // namespace booster
