// Ways to convolve that are faster than oneDNN's own pass, and where: for images that have their
// channels last, without groups, on processors with AVX2 and no AVX-512.
//
// Times of oneDNN's pass over the other way's on two cores of a Zen 3, f32, kernels of 3 x 3
// (channels, positions, images):
//                              y as a gradient     the weight's gradient by a loop
//                              oneDNN 2.6          oneDNN 2.6     oneDNN 3.7
//   16 > 16, 32 x 32, 128      1.20                1.24           1.43
//   32 > 32, 16 x 16, 128      1.12                1.15           1.19
//   64 > 64, 8 x 8, 128        1.26                1.31           1.37
//   128 > 128, 28 x 28, 8      1.22                1.22           1.21
//   64 > 64, 56 x 56, 8        0.97 (not taken)    1.65           1.71
// With AVX-512 oneDNN reaches the rate of its matrix products.
#pragma once

#include "kernels/view.h"

namespace booster::kernels::cpu {

// y (without bias) as the gradient of the input of a convolution from y to x: its weight is this
// one mirrored, with inputs and outputs exchanged.
bool is_faster_as_gradient(const View& y, const View& x, const Window2d& window);
View mirrored(const View& weight);  // in scratch memory
Window2d mirrored(const Window2d& window);

// The gradient of the weight by conv2d_weight_loop. All are f32.
bool is_faster_by_loop(const View& dweight, const View& g, const View& x, const Window2d& window);

}  // namespace booster::kernels::cpu
