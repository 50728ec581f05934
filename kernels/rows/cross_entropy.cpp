// Fused softmax and cross entropy: the probabilities are never stored. Label smoothing as in
// PyTorch (Szegedy et al., 2016, with class weights): with p = softmax(logits), eps = smoothing,
//   loss = (1 - eps) w[t] (-log p[t]) + eps / classes * sum over c of w[c] (-log p[c])
#include "kernels/index_check.h"
#include "kernels/math.h"
#include "kernels/rows/row_sums.h"
#include "kernels/rows/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch logits_buffer, weight_buffer, output_buffer;

// The inputs of a row's loss other than its logits.
template <class C>
struct Blend {
  const C* weight;
  C sum_of_weights, on_target, on_each;  // factors 1 - eps and eps / classes
};

template <class C>
Blend<C> blend_of(const View& weight, int64_t classes, double smoothing) {
  const C* row = parameter_row(weight, classes, C(1), weight_buffer);
  return {row, row_sum(row, classes), C(1 - smoothing), C(smoothing / double(classes))};
}

template <class C>
C log_sum_exp(const C* x, int64_t n) {
  const C largest = row_max(x, n);
  return largest + log_(sum_of<C>(n, [=](int64_t i) { return exp_(x[i] - largest); }));
}

template <class C>
C loss_of_row(const C* x, int64_t classes, int64_t target, C log_sum, const Blend<C>& blend) {
  const C* w = blend.weight;
  const C loss = blend.on_target * w[target] * (log_sum - x[target]);
  if (blend.on_each == C(0)) return loss;
  return loss +
         blend.on_each * sum_of<C>(classes, [=](int64_t c) { return w[c] * (log_sum - x[c]); });
}

// d loss / d logits[c] = p[c] (on_target w[t] + on_each sum(w)) - on_each w[c] - [c = t] on_target
// w[t]
template <class C>
void slope_of_row(C* out, const C* x, int64_t classes, int64_t target, C log_sum, C scale,
                  const Blend<C>& blend) {
  const C* w = blend.weight;
  const C at_target = scale * blend.on_target * w[target];
  const C on_each = scale * blend.on_each;
  const C of_probability = at_target + on_each * blend.sum_of_weights;
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c)
    out[c] = of_probability * exp_(x[c] - log_sum) - on_each * w[c];
  out[target] -= at_target;
}

}  // namespace

void cross_entropy(View loss, View log_sum, View bad_target, View logits, View target, View weight,
                   double smoothing, int64_t ignore_index) {
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  const int64_t* wanted = target.as<const int64_t>();
  const int64_t bad = first_where(rows, [=](int64_t row) {
    return (wanted[row] != ignore_index) & outside(wanted[row], classes);
  });
  *bad_target.as<int64_t>() = bad;
  if (bad >= 0) return;
  visit_compute(logits.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    for_each_range(rows, grain_for(classes), [&](int64_t begin, int64_t end) {
      const Blend<C> blend = blend_of<C>(weight, classes, smoothing);
      for (int64_t row = begin; row < end; ++row) {
        const C* x = read_row(logits, row * classes, classes, logits_buffer.get<C>(classes));
        const C sum = log_sum_exp(x, classes);
        const bool counts = wanted[row] != ignore_index;
        store_scalar(log_sum, row, sum);
        store_scalar(loss, row, counts ? loss_of_row(x, classes, wanted[row], sum, blend) : C(0));
      }
    });
  });
}

void cross_entropy_backward(View dlogits, View scale, View logits, View log_sum, View target,
                            View weight, double smoothing, int64_t ignore_index) {
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  const int64_t* wanted = target.as<const int64_t>();
  visit_compute(logits.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    for_each_range(rows, grain_for(classes), [&](int64_t begin, int64_t end) {
      const Blend<C> blend = blend_of<C>(weight, classes, smoothing);
      for (int64_t row = begin; row < end; ++row) {
        C* out = row_target(dlogits, row * classes, output_buffer.get<C>(classes));
        if (wanted[row] == ignore_index) {
          for (int64_t c = 0; c < classes; ++c) out[c] = C(0);
        } else {
          const C* x = read_row(logits, row * classes, classes, logits_buffer.get<C>(classes));
          slope_of_row(out, x, classes, wanted[row], load_scalar<C>(log_sum, row),
                       load_scalar<C>(scale, row * scale.strides[0]), blend);
        }
        write_row(dlogits, row * classes, classes, out);
      }
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
