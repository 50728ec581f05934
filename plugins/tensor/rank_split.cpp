#include "plugins/tensor/rank_split.h"

#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"
#include "core/tensor/spread_columns.h"

namespace booster {

namespace {

// Returns a dense tensor with g's values, in g's memory if nothing else uses it.
Tensor own_copy(const Tensor& g) {
  const Tensor dense = untracked::contiguous(g);
  Tensor copy = room_in_place_of(dense, dense);
  if (!copy.shares_storage(dense)) copy.copy_(dense);
  return copy;
}

// Returns x as input of all ranks' parts. Its gradient is the sum over the ranks.
Tensor read_by_all(const Tensor& x, const Group& group) {
  return record(x.detach(), "read_by_all", {x}, exchange([group](const Tensor& g, Gradients& d) {
                  d[0] = own_copy(g);
                  Work sum = group.all_reduce_async(d[0]);
                  GradientSchedule(d).work_meanwhile();
                  sum.wait();
                }));
}

// Returns the sum of all ranks' y. The gradient of each y equals the gradient of the sum. Writes
// into y, which must be new and not used elsewhere.
Tensor sum_over_ranks(const Tensor& y, const Group& group) {
  const Tensor sum = untracked::contiguous(y.detach());
  group.all_reduce(sum);
  return record(sum, "sum_over_ranks", {y}, [](const Tensor& g, Gradients& d) { d[0] = g; });
}

// Pads the last dimension with zeros to `size`.
Tensor padded(const Tensor& y, int64_t size) {
  if (y.shape().back() == size) return untracked::contiguous(y.detach());
  Shape shape = y.shape();
  shape[y.ndim() - 1] = size;
  const Tensor wide = zeros(shape, {y.dtype(), y.device()});
  untracked::narrow(wide, -1, 0, y.shape().back()).copy_(y.detach());
  return wide;
}

// Gathers every rank's x, which is dense, along a new first dimension.
Tensor stacked(const Tensor& x, const Group& group) {
  Shape shape = x.shape();
  shape.insert(0, group.size());
  const Tensor all = empty(shape, {x.dtype(), x.device()});
  group.all_gather(all, x);
  return all;
}

Tensor all_of(const Tensor& y, const RankParts& parts, const Group& group) {
  const NoGradGuard no_grad;
  const Tensor all = stacked(padded(y, parts.padded()), group);
  std::vector<Tensor> pieces;
  for (int rank = 0; rank < group.size(); ++rank)
    pieces.push_back(
        untracked::narrow(untracked::select(all, 0, rank), -1, 0, parts.of(rank).size()));
  return cat(pieces, y.ndim() - 1);
}

// The ranks that share the features of a result.
class FeatureRanks : public ColumnRanks {
 public:
  FeatureRanks(const RankParts& parts, Group group) : parts_(parts), group_(std::move(group)) {}
  ElementRange columns() const override { return parts_.of(group_.rank()); }
  int64_t all() const override { return parts_.numel; }
  int64_t most() const override { return parts_.padded(); }
  Tensor gathered(const Tensor& part) const override {
    return all_of(part, parts_, group_);
  }
  Tensor everybodys(const Tensor& x) const override { return stacked(x, group_); }

 private:
  RankParts parts_;
  Group group_;
};

// Joins the features of all ranks, now or at the first read. The gradient on this rank is this
// rank's piece.
Tensor all_features(const Tensor& y, const RankParts& parts, const Group& group, bool now) {
  const auto ranks = std::make_shared<FeatureRanks>(parts, group);
  const Tensor whole =
      now ? all_of(y, parts, group) : spread_over_ranks({untracked::contiguous(y.detach()), ranks});
  const ElementRange here = parts.of(group.rank());
  return record(whole, "all_features", {y}, [here](const Tensor& g, Gradients& d) {
    const Tensor part = spread_columns(g).part;
    d[0] = part.defined()
               ? part
               : untracked::contiguous(untracked::narrow(g, -1, here.begin, here.size()));
  });
}

}  // namespace

Tensor RankSplit::for_parts(const Tensor& x) const { return read_by_all(x, group_); }
Tensor RankSplit::sum_of_parts(const Tensor& y) const { return sum_over_ranks(y, group_); }

Tensor RankSplit::own_features(const Tensor& x) const {
  const bool has_all = x.ndim() > 0 && x.shape().back() == parts_.numel;
  const ElementRange here = rows();
  return has_all ? narrow(for_parts(x), -1, here.begin, here.size()) : x;
}

Tensor RankSplit::to_part(const Tensor& x) const {
  return result_ == Result::summand ? own_features(x) : for_parts(x);
}

Tensor RankSplit::from_part(const Tensor& y) const {
  set_random_stream(result_ == Result::part ? streams_.part : streams_.whole);
  switch (result_) {
    case Result::part: return y;
    case Result::whole: return left_whole(all_features(y, parts_, group_, true));
    case Result::spread: return left_whole(all_features(y, parts_, group_, !must_record({y})));
    case Result::summand: return sum_of_parts(y);
  }
  return y;
}

void sum_gradient_over(const Group& ranks, const Tensor& parameter) {
  Tensor leaf = parameter;
  const bool is_trained = leaf.requires_grad();
  leaf.requires_grad_(true);  // a frozen one may be unfrozen later
  register_grad_hook(leaf, [ranks](const Tensor& g) {
    const Tensor sum = untracked::clone(untracked::contiguous(g));
    ranks.all_reduce(sum);
    return sum;
  });
  leaf.requires_grad_(is_trained);
}

Tensor RankSplit::sum_of_rows(const Tensor& y) const { return sum_over_ranks(y, group_); }

}  // namespace booster
