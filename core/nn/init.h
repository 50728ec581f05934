// Initialisers fill a parameter in place with random or constant values, never recorded on the
// tape. Formulae are PyTorch's (torch.nn.init). They draw from the calling thread's generator
// unless another is given.
#pragma once

#include "core/tensor/random/random.h"

namespace booster::init {

void zeros(Tensor x);
void ones(Tensor x);
void constant(Tensor x, double value);
void uniform(Tensor x, double low = 0, double high = 1, Generator& generator = default_generator());
void normal(Tensor x, double mean = 0, double std = 1, Generator& generator = default_generator());
// A normal distribution truncated to [low, high] (absolute bounds, not standard deviations), drawn
// exactly by the inverse of its cumulative distribution.
void truncated_normal(Tensor x, double mean = 0, double std = 1, double low = -2, double high = 2,
                      Generator& generator = default_generator());

// Inputs and outputs of one unit of a weight (out, in, kernel...). Throws below two dimensions.
struct Fans {
  int64_t in, out;
};
Fans fans_of(const Tensor& weight);

enum class Fan { in, out };
// Bounds or standard deviation sqrt(2 / (in + out)) * gain (Glorot and Bengio, 2010).
void xavier_uniform(Tensor x, double gain = 1, Generator& generator = default_generator());
void xavier_normal(Tensor x, double gain = 1, Generator& generator = default_generator());
// Standard deviation sqrt(2 / ((1 + a^2) fan)), a the slope of a leaky ReLU (He et al., 2015).
void kaiming_uniform(Tensor x, double a = 0, Fan fan = Fan::in,
                     Generator& generator = default_generator());
void kaiming_normal(Tensor x, double a = 0, Fan fan = Fan::in,
                    Generator& generator = default_generator());

// PyTorch's default of Linear and Conv2d: weight Kaiming uniform with a = sqrt(5), bias uniform in
// +-1 / sqrt(inputs). The bias may be undefined.
void layer_default(Tensor weight, Tensor bias, Generator& generator = default_generator());

}  // namespace booster::init
