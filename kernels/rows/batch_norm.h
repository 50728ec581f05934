// What the two batch normalisations share: of planes (batch_norm.cpp) and of channels last
// (batch_norm_channels_last.cpp).
#pragma once

#include "kernels/numbers/math.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {

template <class C>
struct Moments {
  Mean<C> mean;
  C variance;
};

// A channel's numbers become (x - center) factor + shift. Forward and backward must agree on these
// to the last bit.
template <class C>
struct Normalizing {
  C center, factor, shift;
  Normalizing(const Mean<C>& mean, C factor_, C beta)
      : center(mean.center), factor(factor_), shift(beta - mean.rest * factor_) {}
};

// The arguments of the batch_norm of the catalogue, and its work on one channel's statistics.
struct BatchNorm {
  View y, mean, rstd, x, gamma, beta, running_mean, running_var;
  bool training;
  double momentum, eps;
  bool relu = false;
  View residual = {};  // added before relu, if given

  template <class C>
  Moments<C> running(int64_t channel) const {
    return {load_mean<C>(running_mean, channel), load_scalar(running_var, channel, C(1))};
  }
  // Takes a batch's moments of `count` numbers into the running ones, whose variance is unbiased.
  template <class C>
  void update_running(int64_t channel, const Moments<C>& batch, int64_t count) const {
    const double unbiased = double(batch.variance) * double(count) / double(count - 1);
    update(running_mean, channel, batch.mean.whole());
    update(running_var, channel, unbiased);
  }
  // Stores what backward needs.
  template <class C>
  Normalizing<C> finish(int64_t channel, const Moments<C>& moments) const {
    const C inverse = C(1) / sqrt_(moments.variance + C(eps));
    store_scalar(mean, channel, moments.mean.whole());
    store_scalar(rstd, channel, inverse);
    return {moments.mean, inverse * load_scalar(gamma, channel, C(1)),
            load_scalar(beta, channel, C(0))};
  }

 private:
  void update(const View& running, int64_t i, double value) const {
    const double old = load_scalar<double>(running, i);
    store_scalar(running, i, (1 - momentum) * old + momentum * value);
  }
};

// The arguments of batch_norm_backward. With h = (x - mean) rstd over a channel of `count` numbers:
//   dgamma = sum(g h), dbeta = sum(g), dx = gamma rstd (g - dbeta / count - h dgamma / count)
// if the statistics were the batch's, and dx = gamma rstd g if they were constants.
struct BatchNormBackward {
  View dx, dgamma, dbeta, g, x, mean, rstd, gamma;
  bool training;
  bool relu = false;            // g is the gradient of relu(batch_norm(x) + residual)
  View beta = {};               // with relu
  View y = {}, dresidual = {};  // with relu and a residual

  // dx = factor (g - average - (x - center) along), or factor g where no statistics were taken
  template <class C>
  struct Terms {
    C center, factor, average, along;
  };
  template <class C>
  Normalizing<C> normalizing(int64_t channel) const {
    return {load_mean<C>(mean, channel),
            load_scalar<C>(rstd, channel) * load_scalar(gamma, channel, C(1)),
            load_scalar(beta, channel, C(0))};
  }
  // Stores the parameters' gradients, from the channel's sums of g and of g (x - center).
  template <class C>
  Terms<C> finish(int64_t channel, double gradient, double centered, int64_t count) const {
    const Mean<C> of_x = load_mean<C>(mean, channel);
    const C inverse = load_scalar<C>(rstd, channel);
    const C product = C(centered - double(of_x.rest) * gradient);
    store_scalar(dbeta, channel, gradient);
    store_scalar(dgamma, channel, product * inverse);
    const C share = training ? C(1) / C(count) : C(0);
    const C along = counted(product * inverse * inverse, share) * share;
    return {of_x.center, normalizing<C>(channel).factor,
            counted(C(gradient), share) * share - of_x.rest * along, along};
  }
};

void batch_norm_channels_last(const BatchNorm& norm);
void batch_norm_channels_last(const BatchNormBackward& norm);

}  // namespace booster::kernels::BOOSTER_VARIANT
