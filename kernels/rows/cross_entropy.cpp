// Fused softmax and cross entropy: the probabilities are never stored. Label smoothing as in
// PyTorch (Szegedy et al., 2016, with class weights): with p = softmax(logits), eps = smoothing,
//   loss = (1 - eps) w[t] (-log p[t]) + eps / classes * sum over c of w[c] (-log p[c])
// Logits may cover only some of all classes: see the catalogue.
#include "kernels/launch/index_check.h"
#include "kernels/numbers/math.h"
#include "kernels/rows/log_sum.h"
#include "kernels/walks/row_sums.h"
#include "kernels/walks/rows.h"

#include <limits>

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch logits_buffer, weight_buffer, output_buffer;

// The inputs of a row's loss, except its logits.
template <class C>
struct Blend {
  const C* weight;                       // of all classes
  C sum_of_weights, on_target, on_each;  // factors 1 - eps and eps / classes
};

template <class C>
Blend<C> blend_of(const View& weight, int64_t classes, double smoothing) {
  const C* row = parameter_row(weight, classes, C(1), weight_buffer);
  return {row, row_sum(row, classes), C(1 - smoothing), C(smoothing / double(classes))};
}

// The classes of a row of logits: `count` from `first` on.
struct ClassRange {
  int64_t first, count;
  bool has(int64_t target) const { return !outside(target - first, count); }
};

// A row of only -inf gives -inf: other ranks may have finite logits.
template <class C>
LogSum<C> log_sum_exp(const C* x, int64_t n) {
  const C largest = row_max(x, n);
  if (largest == -std::numeric_limits<C>::infinity()) return {largest, C(0)};
  return {largest, log_(sum_of<C>(n, [=](int64_t i) { return exp_(x[i] - largest); }))};
}

// Returns the part's share of the loss, whose log_sum is over all classes.
template <class C>
C loss_of_row(const C* x, ClassRange part, int64_t target, LogSum<C> log_sum,
              const Blend<C>& blend) {
  const C* w = blend.weight + part.first;
  const int64_t t = target - part.first;
  const C loss = part.has(target) ? blend.on_target * w[t] * log_sum.above(x[t]) : C(0);
  if (blend.on_each == C(0)) return loss;
  return loss + blend.on_each *
                    sum_of<C>(part.count, [=](int64_t c) { return w[c] * log_sum.above(x[c]); });
}

// Returns the derivative of that share by log_sum.
template <class C>
C factor_of_row(ClassRange part, int64_t target, const Blend<C>& blend) {
  const C at_target = part.has(target) ? blend.on_target * blend.weight[target] : C(0);
  if (blend.on_each == C(0)) return at_target;
  return at_target + blend.on_each * row_sum(blend.weight + part.first, part.count);
}

// d loss / d logits[c] = p[c] (on_target w[t] + on_each sum(w)) - on_each w[c] - [c = t] on_target
// w[t]
template <class C>
void slope_of_row(C* out, const C* x, ClassRange part, int64_t target, LogSum<C> log_sum, C scale,
                  const Blend<C>& blend) {
  const C* w = blend.weight + part.first;
  const C at_target = scale * blend.on_target * blend.weight[target];
  const C on_each = scale * blend.on_each;
  const C of_probability = at_target + on_each * blend.sum_of_weights;
#pragma omp simd
  for (int64_t c = 0; c < part.count; ++c)
    out[c] = of_probability * exp_(-log_sum.above(x[c])) - on_each * w[c];
  if (part.has(target)) out[target - part.first] -= at_target;
}

}  // namespace

void cross_entropy(View loss, View log_sum, View factor, View bad_target, View logits, View target,
                   View weight, double smoothing, int64_t ignore_index, int64_t first_class,
                   int64_t classes) {
  const int64_t rows = logits.shape[0];
  const ClassRange part{first_class, logits.shape[1]};
  const int64_t* wanted = target.as<const int64_t>();
  const int64_t bad = first_where(rows, [=](int64_t row) {
    return (wanted[row] != ignore_index) & outside(wanted[row], classes);
  });
  *bad_target.as<int64_t>() = bad;
  if (bad >= 0) return;
  visit_compute(logits.dtype, [&]<class C>(C*) {
    for_each_range(rows, grain_for(part.count), [&](int64_t begin, int64_t end) {
      const Blend<C> blend = blend_of<C>(weight, classes, smoothing);
      for (int64_t row = begin; row < end; ++row) {
        const C* x =
            read_row(logits, row * part.count, part.count, logits_buffer.get<C>(part.count));
        const LogSum<C> sum = log_sum_exp(x, part.count);
        const int64_t t = wanted[row];
        const bool counts = t != ignore_index;
        store_scalar(log_sum, 2 * row, sum.largest);
        store_scalar(log_sum, 2 * row + 1, sum.more);
        store_scalar(loss, row, counts ? loss_of_row<C>(x, part, t, sum, blend) : C(0));
        if (factor.data) store_scalar(factor, row, counts ? factor_of_row(part, t, blend) : C(0));
      }
    });
  });
}

void cross_entropy_backward(View dlogits, View scale, View logits, View log_sum, View target,
                            View weight, double smoothing, int64_t ignore_index,
                            int64_t first_class, int64_t classes) {
  const int64_t rows = logits.shape[0];
  const ClassRange part{first_class, logits.shape[1]};
  const int64_t* wanted = target.as<const int64_t>();
  visit_compute(logits.dtype, [&]<class C>(C*) {
    for_each_range(rows, grain_for(part.count), [&](int64_t begin, int64_t end) {
      const Blend<C> blend = blend_of<C>(weight, classes, smoothing);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * part.count;
        C* out = row_target(dlogits, at, output_buffer.get<C>(part.count));
        if (wanted[row] == ignore_index) {
          for (int64_t c = 0; c < part.count; ++c) out[c] = C(0);
        } else {
          const C* x = read_row(logits, at, part.count, logits_buffer.get<C>(part.count));
          const LogSum<C> sum = {load_scalar<C>(log_sum, 2 * row),
                                 load_scalar<C>(log_sum, 2 * row + 1)};
          slope_of_row<C>(out, x, part, wanted[row], sum,
                          load_scalar<C>(scale, row * scale.strides[0]), blend);
        }
        write_row(dlogits, at, part.count, out);
      }
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
