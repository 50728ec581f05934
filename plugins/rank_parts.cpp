#include "plugins/rank_parts.h"

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

Tensor gathered(const Tensor& part, const Shape& whole, const Group& group) {
  PackedParts packed(group.size());
  packed.add(whole.numel());
  const TensorOptions options = {part.dtype(), part.device()};
  const Tensor own = zeros({packed.part()}, options), all = empty({packed.elements()}, options);
  packed.own_place(own, 0, group.rank()).copy_(untracked::reshape(part.detach(), {-1}));
  group.all_gather(all, own);
  const Tensor result = empty(whole, options);
  packed.unpack(all, 0, result);
  return result;
}

}  // namespace booster
