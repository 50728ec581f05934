// The updates of one element of Adadelta, Adagrad, Adamax, ASGD, NAdam, RAdam and Rprop, by the
// formulas of core/optim/optimizers.h. Like optimizer_math.h, for the CPU's loops and CUDA's
// kernels; all constants of a step are computed once per parameter, in double.
#pragma once

#include "kernels/optimizer/optimizer_math.h"

namespace booster::kernels::BOOSTER_VARIANT {

template <class C>
struct AdadeltaUpdate {
  C lr, decay, rho, fresh, eps;

  KERNEL_FN AdadeltaUpdate(const ElementStep& step, const OptimizerSlot&)
      : lr(C(step.lr)),
        decay(C(step.weight_decay)),
        rho(C(step.rates[0])),
        fresh(C(1 - step.rates[0])),
        eps(C(step.eps)) {}
  KERNEL_FN void operator()(C& p, C g, C& v, C& u) const {
    const C decayed = g + decay * p;
    v = rho * v + fresh * decayed * decayed;
    const C delta = sqrt_(u + eps) / sqrt_(v + eps) * decayed;
    u = rho * u + fresh * delta * delta;
    p -= lr * delta;
  }
};

// The state excludes the accumulator's initial value.
template <class C>
struct AdagradUpdate {
  C rate, decay, eps, initial;

  KERNEL_FN AdagradUpdate(const ElementStep& step, const OptimizerSlot& slot)
      : rate(C(step.lr / (1 + double(step_of(slot) - 1) * step.bounds[0]))),
        decay(C(step.weight_decay)),
        eps(C(step.eps)),
        initial(C(step.bounds[1])) {}
  KERNEL_FN void operator()(C& p, C g, C& v) const {
    const C decayed = g + decay * p;
    v += decayed * decayed;
    p -= rate * decayed / (sqrt_(v + initial) + eps);
  }
};

template <class C>
struct AdamaxUpdate {
  C rate, decay, beta1, new1, beta2, eps;

  KERNEL_FN AdamaxUpdate(const ElementStep& step, const OptimizerSlot& slot)
      : rate(C(step.lr / (1 - ::pow(step.rates[0], double(step_of(slot)))))),
        decay(C(step.weight_decay)),
        beta1(C(step.rates[0])),
        new1(C(1 - step.rates[0])),
        beta2(C(step.rates[1])),
        eps(C(step.eps)) {}
  KERNEL_FN void operator()(C& p, C g, C& m, C& u) const {
    const C decayed = g + decay * p;
    m = beta1 * m + new1 * decayed;
    u = maximum_(beta2 * u, abs_(decayed) + eps);
    p -= rate * m / u;
  }
};

template <class C>
struct AsgdUpdate {
  C rate, decay, kept, share;

  // rates: lambd and alpha; bounds[0]: t0
  KERNEL_FN AsgdUpdate(const ElementStep& step, const OptimizerSlot& slot)
      : decay(C(step.weight_decay)) {
    const double before = double(step_of(slot) - 1);
    const double eta = step.lr / ::pow(1 + step.rates[0] * step.lr * before, step.rates[1]);
    const double averaged = before - step.bounds[0];
    rate = C(eta);
    kept = C(1 - step.rates[0] * eta);
    share = C(averaged > 1 ? 1 / averaged : 1);
  }
  KERNEL_FN void operator()(C& p, C g, C& average) const {
    const C decayed = g + decay * p;
    p = kept * p - rate * decayed;
    average = share == C(1) ? p : average + share * (p - average);
  }
};

template <class C>
struct NadamUpdate {
  C joined_decay, kept, beta1, new1, beta2, new2, eps, inverse_correction, of_gradient, of_moment;

  KERNEL_FN NadamUpdate(const ElementStep& step, const OptimizerSlot& slot)
      : joined_decay(step.decoupled ? C(0) : C(step.weight_decay)),
        kept(step.decoupled ? C(1 - step.lr * step.weight_decay) : C(1)),
        beta1(C(step.rates[0])),
        new1(C(1 - step.rates[0])),
        beta2(C(step.rates[1])),
        new2(C(1 - step.rates[1])),
        eps(C(step.eps)) {
    const int64_t t = step_of(slot);
    inverse_correction = C(1 / (1 - ::pow(step.rates[1], double(t))));
    double product = 1;  // of all momenta so far; below 1e-20 it changes no result
    for (int64_t i = 1; i <= t && product > 1e-20; ++i) product *= momentum(step, i);
    const double next = momentum(step, t + 1);
    of_gradient = C(step.lr * (1 - momentum(step, t)) / (1 - product));
    of_moment = C(step.lr * next / (1 - product * next));
  }
  KERNEL_FN static double momentum(const ElementStep& step, int64_t t) {
    return step.rates[0] * (1 - 0.5 * ::pow(0.96, double(t) * step.bounds[0]));
  }
  KERNEL_FN void operator()(C& p, C g, C& m, C& v) const {
    const C decayed = g + joined_decay * p;
    m = beta1 * m + new1 * decayed;
    v = beta2 * v + new2 * decayed * decayed;
    const C inverse = C(1) / (sqrt_(v * inverse_correction) + eps);
    p = kept * p - (of_gradient * decayed + of_moment * m) * inverse;
  }
};

template <class C>
struct RadamUpdate {
  C joined_decay, kept, beta1, new1, beta2, new2, eps, rate, adaptive;  // adaptive 0: not yet

  KERNEL_FN RadamUpdate(const ElementStep& step, const OptimizerSlot& slot)
      : joined_decay(step.decoupled ? C(0) : C(step.weight_decay)),
        kept(step.decoupled ? C(1 - step.lr * step.weight_decay) : C(1)),
        beta1(C(step.rates[0])),
        new1(C(1 - step.rates[0])),
        beta2(C(step.rates[1])),
        new2(C(1 - step.rates[1])),
        eps(C(step.eps)) {
    const double t = double(step_of(slot)), power = ::pow(step.rates[1], t);
    const double longest = 2 / (1 - step.rates[1]) - 1;
    const double length = longest - 2 * t * power / (1 - power);
    const double rectified =
        (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);
    rate = C(step.lr / (1 - ::pow(step.rates[0], t)));
    adaptive = length > 5 ? C(::sqrt(rectified * (1 - power))) : C(0);
  }
  KERNEL_FN void operator()(C& p, C g, C& m, C& v) const {
    const C decayed = g + joined_decay * p;
    m = beta1 * m + new1 * decayed;
    v = beta2 * v + new2 * decayed * decayed;
    p = kept * p - rate * m * (adaptive == C(0) ? C(1) : adaptive / (sqrt_(v) + eps));
  }
};

template <class C>
struct RpropUpdate {
  C lr, shrink, grow, least, most;
  bool first;

  KERNEL_FN RpropUpdate(const ElementStep& step, const OptimizerSlot& slot)
      : lr(C(step.lr)),
        shrink(C(step.rates[0])),
        grow(C(step.rates[1])),
        least(C(step.bounds[0])),
        most(C(step.bounds[1])),
        first(slot.first || step_of(slot) == 1) {}
  KERNEL_FN void operator()(C& p, C g, C& before, C& size) const {
    const C product = g * before;
    const C factor = product > C(0) ? grow : (product < C(0) ? shrink : C(1));
    size = within((first ? lr : size) * factor, least, most);
    before = product < C(0) ? C(0) : g;
    p -= (before > C(0) ? size : (before < C(0) ? -size : C(0)));
  }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
