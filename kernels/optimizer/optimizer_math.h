// The optimizers' update of one element, in compute type C (float, or double for f64 parameters).
// Plain functions that the CPU's loops and CUDA's kernels both call. All constants of a step are
// computed once per parameter, in double.
#pragma once

#include "kernels/arguments/multi_tensor.h"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns the number of this step, from 1, if it is not skipped.
KERNEL_FN int64_t step_of(const OptimizerSlot& slot) { return *slot.steps + 1; }

// A gradient for the formula: unscaled, then clipped, then negated to maximize.
template <class C>
struct GradientFactor {
  C inverse_scale, clip;

  KERNEL_FN GradientFactor(const StepControl& control, bool maximize)
      : inverse_scale(control.inverse_scale ? C(*control.inverse_scale) : C(1)),
        clip((control.clip_factor ? C(*control.clip_factor) : C(1)) * (maximize ? C(-1) : C(1))) {}
  KERNEL_FN C operator()(C g) const { return g * inverse_scale * clip; }
};

// A pass over a slot. A step takes gradients and changes states. LAMB's second pass applies the
// result of the first, and only reads states.
enum class UpdatePass { step, apply };

// p -= lr * (g + decay * p)
template <class C>
struct SgdUpdate {
  C lr, decay;

  KERNEL_FN SgdUpdate(const SgdStep& step, const OptimizerSlot&)
      : lr(C(step.lr)), decay(C(step.weight_decay)) {}
  KERNEL_FN void operator()(C& p, C g) const { p -= lr * (g + decay * p); }
};

// m = momentum * m + gain * g, where an unused m is 0 and its first gain 1.
template <class C>
struct MomentumUpdate {
  C lr, decay, momentum, gain;
  bool nesterov;

  KERNEL_FN MomentumUpdate(const SgdStep& step, const OptimizerSlot& slot)
      : lr(C(step.lr)),
        decay(C(step.weight_decay)),
        momentum(C(step.momentum)),
        gain(slot.first || step_of(slot) == 1 ? C(1) : C(1 - step.dampening)),
        nesterov(step.nesterov) {}
  KERNEL_FN void operator()(C& p, C g, C& m) const {
    const C decayed = g + decay * p;
    m = momentum * m + gain * decayed;
    p -= lr * (nesterov ? decayed + momentum * m : m);
  }
};

// Kingma and Ba's moments. With the bias corrections c1 = 1 - beta1^t and c2 = 1 - beta2^t
//   m / c1 / (sqrt(v / c2) + eps) = sqrt(c2) / c1 * m / (sqrt(v) + sqrt(c2) * eps),
// as at the end of their section 2: one division per element instead of three. If all data is in
// cache, root and divisions determine the step's time (Zen 4: 28 % less with one than with two).
template <class C>
struct Moments {
  C beta1, beta2, new1, new2, scaled_eps;
  double correction;  // sqrt(c2) / c1

  KERNEL_FN Moments(double b1, double b2, double new1_, double eps, bool correct, int64_t t)
      : beta1(C(b1)), beta2(C(b2)), new1(C(new1_)), new2(C(1 - b2)) {
    const double root = correct ? ::sqrt(1 - ::pow(b2, double(t))) : 1;
    scaled_eps = C(eps * root);
    correction = correct ? root / (1 - ::pow(b1, double(t))) : 1;
  }
  KERNEL_FN void blend(C g, C& m, C& v) const {
    m = beta1 * m + new1 * g;
    v = beta2 * v + new2 * g * g;
  }
  KERNEL_FN C denominator(C v) const { return sqrt_(v) + scaled_eps; }
};

// p -= lr * correction * m / denominator
template <class C>
struct AdamUpdate {
  Moments<C> moments;
  C step_size, joined_decay, kept;  // kept: factor of p after decoupled decay

  KERNEL_FN AdamUpdate(const AdamStep& step, const OptimizerSlot& slot)
      : moments(step.beta1, step.beta2, 1 - step.beta1, step.eps, true, step_of(slot)),
        step_size(C(step.lr * moments.correction)),
        joined_decay(step.decoupled ? C(0) : C(step.weight_decay)),
        kept(step.decoupled ? C(1 - step.lr * step.weight_decay) : C(1)) {}
  KERNEL_FN void operator()(C& p, C g, C& m, C& v) const {
    moments.blend(g + joined_decay * p, m, v);
    p = kept * p - step_size * m / moments.denominator(v);
  }
};

// v averages squared gradients; a step is the gradient over the root of v. `centered` subtracts the
// square of the gradients' average a, so that v estimates the variance.
template <class C>
struct Rmsprop {
  C lr, decay, alpha, fresh, eps, momentum;

  KERNEL_FN Rmsprop(const RmspropStep& step, const OptimizerSlot&)
      : lr(C(step.lr)),
        decay(C(step.weight_decay)),
        alpha(C(step.alpha)),
        fresh(C(1 - step.alpha)),
        eps(C(step.eps)),
        momentum(C(step.momentum)) {}
  // Updates v, and returns the gradient with decay over the root of v.
  KERNEL_FN C scaled(C p, C g, C& v) const {
    const C decayed = g + decay * p;
    v = alpha * v + fresh * decayed * decayed;
    return decayed / (sqrt_(v) + eps);
  }
  KERNEL_FN C centered(C p, C g, C& v, C& a) const {
    const C decayed = g + decay * p;
    v = alpha * v + fresh * decayed * decayed;
    a = alpha * a + fresh * decayed;
    return decayed / (sqrt_(v - a * a) + eps);
  }
};
template <class C>
struct RmspropUpdate : Rmsprop<C> {
  using Rmsprop<C>::Rmsprop;
  KERNEL_FN void operator()(C& p, C g, C& v) const { p -= this->lr * this->scaled(p, g, v); }
};
template <class C>
struct RmspropMomentumUpdate : Rmsprop<C> {
  using Rmsprop<C>::Rmsprop;
  KERNEL_FN void operator()(C& p, C g, C& v, C& m) const {
    m = this->momentum * m + this->scaled(p, g, v);
    p -= this->lr * m;
  }
};
template <class C>
struct CenteredRmspropUpdate : Rmsprop<C> {
  using Rmsprop<C>::Rmsprop;
  KERNEL_FN void operator()(C& p, C g, C& v, C& a) const {
    p -= this->lr * this->centered(p, g, v, a);
  }
};
template <class C>
struct CenteredRmspropMomentumUpdate : Rmsprop<C> {
  using Rmsprop<C>::Rmsprop;
  KERNEL_FN void operator()(C& p, C g, C& v, C& m, C& a) const {
    m = this->momentum * m + this->centered(p, g, v, a);
    p -= this->lr * m;
  }
};

// The update before the trust ratio: correction * m / denominator + decay * p
template <class C>
struct LambUpdate {
  Moments<C> moments;
  C lr, correction, added_decay, kept;
  C divisor;  // divides every gradient: clip by the global norm
  bool adapt, trust_clip;

  KERNEL_FN LambUpdate(const LambStep& step, const OptimizerSlot& slot, double divisor_)
      : moments(step.beta1, step.beta2, step.grad_averaging ? 1 - step.beta1 : 1, step.eps,
                step.bias_correction, step_of(slot)),
        lr(C(step.lr)),
        correction(C(moments.correction)),
        added_decay(step.decoupled ? C(0) : C(step.weight_decay)),
        kept(step.decoupled ? C(1 - step.lr * step.weight_decay) : C(1)),
        divisor(C(divisor_)),
        adapt(step.weight_decay != 0 || step.always_adapt),
        trust_clip(step.trust_clip) {}
  KERNEL_FN C update(C p, C m, C v) const {
    return correction * m / moments.denominator(v) + added_decay * p;
  }
  // Returns |p| / |update|, or 1 if either is 0.
  KERNEL_FN C trust_ratio(double p_norm, double update_norm) const {
    if (!adapt || !(p_norm > 0) || !(update_norm > 0)) return C(1);
    const double ratio = p_norm / update_norm;
    return C(trust_clip && ratio > 1 ? 1 : ratio);
  }
};

// Returns the divisor that reduces a global norm to `max_norm`: max(1, norm / max_norm).
KERNEL_FN double lamb_divisor(const LambStep& step, const double* grad_norm,
                              const StepControl& control) {
  if (!grad_norm || step.max_grad_norm == 0) return 1;
  double norm = *grad_norm;
  if (control.inverse_scale) norm *= double(*control.inverse_scale);
  if (control.clip_factor) norm *= *control.clip_factor;
  const double divisor = norm / step.max_grad_norm;
  return divisor < 1 ? 1 : divisor;  // nan stays nan
}

}  // namespace booster::kernels::BOOSTER_VARIANT
