// Convolution as matrix product: the windows of an image laid out as the columns of a matrix.
// Slower than oneDNN's convolutions, but it supports every floating dtype and geometry and is exact
// in f64; tests compare oneDNN's convolutions with it.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels::cpu {

// Compute the three convolutions of the catalogue, without bias; f32 and f64.
void unfold_conv2d(const View& y, const View& x, const View& weight, const Window2d& window);
void unfold_conv2d_backward_input(const View& dx, const View& g, const View& weight,
                                  const Window2d& window);
void unfold_conv2d_backward_weight(const View& dweight, const View& g, const View& x,
                                   const Window2d& window);

}  // namespace booster::kernels::cpu
