#include "plugins/sequence/token_exchange.h"

#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/tape.h"
#include "platform/error.h"
#include "plugins/sequence/divisors.h"

namespace booster {

namespace {

Tensor permuted(const Tensor& x, const std::vector<int>& order) {
  return untracked::contiguous(untracked::permute(x, order));
}

// Splits (batch, tokens, features) into one block of tokens per rank; in_one() is the inverse.
Tensor by_ranks(const Tensor& x, int ranks) {
  const Shape shape = {x.size(0), ranks, x.size(1) / ranks, x.size(2)};
  return permuted(untracked::reshape(x, shape), {1, 0, 2, 3});
}
Tensor in_one(const Tensor& runs) {
  const Tensor x = permuted(runs, {1, 0, 2, 3});
  return untracked::reshape(x, {x.size(0), x.size(1) * x.size(2), x.size(3)});
}

// --- off the tape
Tensor gathered(const Tensor& x, const Group& group) {
  Shape shape = x.shape();
  shape.insert(0, group.size());
  const Tensor runs = empty(shape, {x.dtype(), x.device()});
  group.all_gather(runs, untracked::contiguous(x));
  return in_one(runs);
}

Tensor piece(const Tensor& x, const Group& group) {
  const int64_t size = x.size(1) / group.size();
  return untracked::contiguous(untracked::narrow(x, 1, group.rank() * size, size));
}

// Sums a piece over the ranks; runs `meanwhile` during the exchange.
template <class F>
Tensor summed_piece(const Tensor& x, const Group& group, F&& meanwhile) {
  const Tensor runs = by_ranks(x, group.size());
  const Tensor own =
      empty({x.size(0), x.size(1) / group.size(), x.size(2)}, {x.dtype(), x.device()});
  Work sum = group.reduce_scatter_async(own, runs);
  meanwhile();
  sum.wait();
  return own;
}

Tensor scaled(const Tensor& x, double factor) { return factor == 1 ? x : mul(x, factor); }

Tensor exchanged(const Tensor& parts, const Group& group) {
  const Tensor received = empty(parts.shape(), {parts.dtype(), parts.device()});
  group.all_to_all(received, parts);
  return received;
}

// Exchanges (batch, own tokens, matrices, ranks, heads of one) for (batch, ranks, own tokens,
// matrices, heads of one). Rank r gets its heads of all ranks' tokens.
Tensor to_heads(const Tensor& x, int64_t matrices, const Group& group) {
  const int64_t ranks = group.size(), each = x.size(2) / (matrices * ranks);
  const Tensor split = untracked::reshape(x, {x.size(0), x.size(1), matrices, ranks, each});
  const Tensor all = permuted(exchanged(permuted(split, {3, 0, 1, 2, 4}), group), {1, 0, 2, 3, 4});
  return untracked::reshape(all, {x.size(0), ranks * x.size(1), matrices * each});
}

Tensor to_tokens(const Tensor& x, int64_t matrices, const Group& group) {
  const int64_t ranks = group.size(), each = x.size(2) / matrices;
  const Tensor split = untracked::reshape(x, {x.size(0), ranks, x.size(1) / ranks, matrices, each});
  const Tensor all = permuted(exchanged(permuted(split, {1, 0, 2, 3, 4}), group), {1, 2, 3, 0, 4});
  return untracked::reshape(all, {x.size(0), x.size(1) / ranks, ranks * x.size(2)});
}

}  // namespace

void check_tokens_divide(int64_t tokens, int ranks) {
  check(tokens % ranks == 0,
        "sequence parallel: {1} ranks do not divide {0} tokens; want {2} ranks, or another number "
        "of tokens",
        tokens, ranks, divisors_of(tokens));
}

Tensor own_tokens(const Tensor& x, const Group& group, double factor) {
  check(x.ndim() == 3, "sequence parallel: wrong shape; got {}, want (batch, tokens, features)",
        x.shape());
  check_tokens_divide(x.size(1), group.size());
  return record(piece(x.detach(), group), "own_tokens", {x},
                [group, factor](const Tensor& g, Gradients& d) {
                  d[0] = scaled(gathered(g, group), 1 / factor);
                });
}

Tensor all_tokens(const Tensor& x, const Group& group, double factor) {
  return record(
      gathered(x.detach(), group), "all_tokens", {x},
      [group, factor](const Tensor& g, Gradients& d) { d[0] = scaled(piece(g, group), factor); });
}

Tensor tokens_for_parts(const Tensor& x, const Group& group) {
  return record(gathered(x.detach(), group), "tokens_for_parts", {x},
                exchange([group](const Tensor& g, Gradients& d) {
                  d[0] = summed_piece(g, group, [&] { GradientSchedule(d).work_meanwhile(); });
                }));
}

Tensor own_tokens_of_sum(const Tensor& y, const Group& group) {
  return record(summed_piece(y.detach(), group, [] {}), "own_tokens_of_sum", {y},
                [group](const Tensor& g, Gradients& d) { d[0] = gathered(g, group); });
}

Tensor tokens_to_heads(const Tensor& x, int64_t matrices, const Group& group) {
  return record(
      to_heads(x.detach(), matrices, group), "tokens_to_heads", {x},
      [matrices, group](const Tensor& g, Gradients& d) { d[0] = to_tokens(g, matrices, group); });
}

Tensor heads_to_tokens(const Tensor& x, int64_t matrices, const Group& group) {
  return record(
      to_tokens(x.detach(), matrices, group), "heads_to_tokens", {x},
      [matrices, group](const Tensor& g, Gradients& d) { d[0] = to_heads(g, matrices, group); });
}

}  // namespace booster
