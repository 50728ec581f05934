// Fused softmax and cross entropy, as kernels/rows/cross_entropy.cpp defines them.
#include "kernels/cuda/rows/first_where.cuh"
#include "kernels/cuda/rows/log_sum_exp.cuh"
#include "kernels/launch/index_check.h"
#include "kernels/rows/log_sum.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct BadTarget {
  const int64_t* target;
  int64_t ignore_index, classes;
  __device__ bool operator()(int64_t row) const {
    return target[row] != ignore_index && outside(target[row], classes);
  }
};

// The inputs of both passes. The logits cover `count` classes from `first_class` on.
template <class C>
struct Loss {
  Operand logits, log_sum, weight;
  const int64_t* target;
  int64_t ignore_index, first_class, count, classes;
  C on_target, on_each;  // factors 1 - smoothing and smoothing / classes
  const C* weight_sums;  // over all classes, and over the logits' classes; if on_each != 0
  const int64_t* bad_target = nullptr;
  Operand loss = {}, factor = {};

  __device__ bool has(int64_t t) const { return !outside(t - first_class, count); }
  // Returns 0 for an invalid class, whose error the program may not have raised yet.
  __device__ C at_target(int64_t t) const {
    return outside(t, classes) ? C(0) : on_target * load_one(weight, t, C(1));
  }
};

template <class C>
Loss<C> loss_of(const View& logits, const View& log_sum, const View& target, const View& weight,
                double smoothing, int64_t ignore_index, int64_t first_class, int64_t classes,
                const Workspace<C>& sums) {
  return {logits,           log_sum,
          weight,           target.as<const int64_t>(),
          ignore_index,     first_class,
          logits.shape[1],  classes,
          C(1 - smoothing), C(smoothing / double(classes)),
          sums.data()};
}

// Sets sums[0] and [1] = the sums of weights of all classes, and of the logits' classes.
template <class C>
void sum_weights(C* sums, const Loss<C>& of, int64_t classes) {
  if (of.on_each == C(0)) return;
  const Operand weight = of.weight;
  const int64_t first = of.first_class, last = first + of.count;
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    C all = 0, here = 0;
    for_each_lane(classes, [&](int64_t c) {
      const C w = load_one(weight, c, C(1));
      all += w;
      if (c >= first && c < last) here += w;
    });
    all = team_sum<BlockTeam>(all);
    here = team_sum<BlockTeam>(here);
    if (first_lane()) {
      sums[0] = all;
      sums[1] = here;
    }
  });
}

// Returns the sum over the row's classes of weight (log_sum - logit); `value` holds the row's last
// chunk.
template <class C, class Team>
__device__ C sum_of_losses(const Loss<C>& of, const Row<Team, C>& row, C (&value)[held<C>],
                           LogSum<C> log_sum) {
  C weight[held<C>], sum = 0;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) load_share(value, of.logits, row.begin, share, C(0));
    load_share(weight, of.weight, of.first_class, share, C(1));
#pragma unroll
    for (int e = 0; e < held<C>; ++e)
      if (share.has(e)) sum += weight[e] * log_sum.above(value[e]);
  }
  return team_sum<Team>(sum);
}

template <class C, class Team>
__device__ void loss_of_row(const Loss<C>& of, int64_t index) {
  const Row<Team, C> row(of.logits, index, of.count);
  C value[held<C>];
  const Exponentials<C> all = exponentials_of(value, of.logits, row, false);
  // A row of only -inf gives -inf: other ranks may have finite logits.
  const bool is_empty = all.largest == C(-__builtin_inf());
  const LogSum<C> log_sum = {all.largest, is_empty ? C(0) : log_(all.sum)};
  const int64_t t = of.target[index];
  C loss = 0, factor = 0;
  if (t != of.ignore_index && of.has(t)) {
    factor = of.at_target(t);
    const C logit = load_one<C>(of.logits, row.begin + t - of.first_class);
    loss = factor * log_sum.above(logit);
  }
  if (t != of.ignore_index && of.on_each != C(0)) {
    factor += of.on_each * of.weight_sums[1];
    loss += of.on_each * sum_of_losses<C>(of, row, value, log_sum);
  }
  if (Team::rank() != 0) return;
  store_one(of.log_sum, 2 * index, log_sum.largest);
  store_one(of.log_sum, 2 * index + 1, log_sum.more);
  store_one(of.loss, index, loss);
  store_one(of.factor, index, factor);
}

template <class C, class Team>
void loss_of_rows(Loss<C> of, int64_t rows) {
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t row) {
    if (*of.bad_target < 0) loss_of_row<C, Team>(of, row);
  });
}

// Writes one chunk of a row of the gradient: p[c] (at_target + on_each sum(w)) - on_each w[c],
// minus at_target if c is the target.
template <class C, class Team>
__device__ void slope_of_chunk(const Operand& dlogits, const Loss<C>& of, const Row<Team, C>& row,
                               int64_t chunk, int64_t t, LogSum<C> log_sum, C scale) {
  const auto share = row.share(chunk);
  C value[held<C>], weight[held<C>];
#pragma unroll
  for (int e = 0; e < held<C>; ++e) value[e] = C(0);
  if (t != of.ignore_index) {
    const C at_target = scale * of.at_target(t), on_each = scale * of.on_each;
    const bool smooth = of.on_each != C(0);
    const C of_probability = smooth ? at_target + on_each * of.weight_sums[0] : at_target;
    load_share(value, of.logits, row.begin, share, C(0));
    load_share(weight, smooth ? of.weight : Operand(), of.first_class, share, C(1));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) {
      value[e] = of_probability * exp_(-log_sum.above(value[e])) - on_each * weight[e];
      if (share.column(e) == t - of.first_class) value[e] -= at_target;
    }
  }
  store_share(dlogits, row.begin, share, value);
}

// Writes the gradient; a team has a chunk of a row at a time, since there may be few and long rows.
template <class C, class Team>
void slope_of_rows(Operand dlogits, Operand scale, int64_t scale_stride, Loss<C> of, int64_t rows) {
  const int64_t chunk_size = Row<Team, C>::chunk_size;
  const int64_t chunks = (of.count + pack_size - 1 + chunk_size - 1) / chunk_size;
  for_each_row<Team>(rows * chunks, [=] ON_DEVICE(int64_t i) {
    const int64_t index = i / chunks;
    const LogSum<C> log_sum = {load_one<C>(of.log_sum, 2 * index),
                               load_one<C>(of.log_sum, 2 * index + 1)};
    slope_of_chunk<C, Team>(dlogits, of, Row<Team, C>(of.logits, index, of.count), i % chunks,
                            of.target[index], log_sum, load_one<C>(scale, index * scale_stride));
  });
}

}  // namespace

void cross_entropy(View loss, View log_sum, View factor, View bad_target, View logits, View target,
                   View weight, double smoothing, int64_t ignore_index, int64_t first_class,
                   int64_t classes) {
  const int64_t rows = logits.shape[0];
  find_first(bad_target.as<int64_t>(), rows,
             BadTarget{target.as<const int64_t>(), ignore_index, classes});
  visit_teams(logits.dtype, logits.shape[1], [&]<class C, class Team>(C*, Team*) {
    const Workspace<C> sums(2);
    Loss<C> of = loss_of(logits, log_sum, target, weight, smoothing, ignore_index, first_class,
                         classes, sums);
    of.bad_target = bad_target.as<const int64_t>();
    of.loss = loss;
    of.factor = factor;
    sum_weights(sums.data(), of, classes);
    loss_of_rows<C, Team>(of, rows);
  });
}

void cross_entropy_backward(View dlogits, View scale, View logits, View log_sum, View target,
                            View weight, double smoothing, int64_t ignore_index,
                            int64_t first_class, int64_t classes) {
  visit_teams(logits.dtype, logits.shape[1], [&]<class C, class Team>(C*, Team*) {
    const Workspace<C> sums(2);
    const Loss<C> of = loss_of(logits, log_sum, target, weight, smoothing, ignore_index,
                               first_class, classes, sums);
    sum_weights(sums.data(), of, classes);
    slope_of_rows<C, Team>(dlogits, scale, scale.strides[0], of, logits.shape[0]);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
