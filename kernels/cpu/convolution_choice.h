// Ways to convolve that are faster than oneDNN's own choice, and when to use them.
//
// The figures are oneDNN's time / the other way's time: above 1 the other way is faster.
//
// With AVX2 alone, for channels-last images without groups, on two cores of a Zen 3, f32, kernels
// of 3 x 3 (channels, positions, images):
//                              y as a gradient     the weight's gradient by a loop
//                              oneDNN 2.6          oneDNN 2.6     oneDNN 3.7
//   16 > 16, 32 x 32, 128      1.20                1.24           1.43
//   32 > 32, 16 x 16, 128      1.12                1.15           1.19
//   64 > 64, 8 x 8, 128        1.26                1.31           1.37
//   128 > 128, 28 x 28, 8      1.22                1.22           1.21
//   64 > 64, 56 x 56, 8        0.97 (not taken)    1.65           1.71
// (Since then the loop packs its operands. Its AVX2 code, on a Zen 4, now runs in f32 at 0.87 to
// 0.93 of its former speed with 16 channels, and at 0.96 to 1.1 with more. 16-bit images need no
// f32 copies any more.)
//
// With AVX-512 and no AMX, two cores of a Zen 4:
//                              the weight's gradient   forward and input gradient by oneDNN 3.7's
//                              by a loop, bf16         older code for that by matrix products
//                              oneDNN 2.6              bf16            f32
//   16 > 16, 32 x 32, 128      1.28                    1.05, 1.05      0.79, 1.08 (not taken)
//   the same, 32 out, stride 2 4.7                     1.33, 2.31      1.09, 1.58 (the second)
//   32 > 32, 16 x 16, 128      1.24                    1.14, 1.14      1.05, 1.06 (not taken)
//   64 > 64, 8 x 8, 128        1.36                    1.06, 1.09      0.94, 0.91 (not taken)
//   128 > 128, 28 x 28, 8      1.01                    1.07, 1.04      0.99, 0.99 (not taken)
//   512 > 512, 7 x 7, 8        0.70 (not taken)        1.51, 1.05      1.31, 1.41 (not taken)
// In f32 oneDNN's gradient of a weight reaches the rate of its matrix products.
#pragma once

#include "kernels/arguments/convolution.h"

#include <string_view>

namespace booster::kernels::cpu {

// Returns true if y (without bias) is faster as an input gradient: of a convolution from y to x
// with this weight mirrored.
bool is_faster_as_gradient(const View& y, const View& x, const Window2d& window);
View mirrored(const View& weight);  // in scratch memory
Window2d mirrored(const Window2d& window);

// Returns true if the library's code of this name, which describes its method, is slow here.
bool is_slow(std::string_view code, ConvolutionPass pass, DType dtype, const Window2d& window);

// Returns true if conv2d_weight_loop computes the gradient of the weight faster.
bool is_faster_by_loop(const View& dweight, const View& g, const View& x, const Window2d& window);

}  // namespace booster::kernels::cpu
