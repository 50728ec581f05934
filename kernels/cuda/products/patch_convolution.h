// Convolutions with adjacent windows, as when an image is cut into patches: a product of matrices,
// (images * windows, channels * taps) with filters (features, channels * taps). Sizes and layouts
// otherwise are as for the catalogue's convolutions.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels::cuda {

// Returns true if windows are adjacent (are_patches), and filters are dense.
bool is_patchwise(const View& weight, const Window2d& window);

void patch_convolution(const View& y, const View& x, const View& weight, const View& bias,
                       const Window2d& window);
void patch_convolution_input(const View& dx, const View& g, const View& weight,
                             const Window2d& window);
// Computes the weight's gradient; `dbias` may be absent.
void patch_convolution_weight(const View& dweight, const View& dbias, const View& g, const View& x,
                              const Window2d& window);

}  // namespace booster::kernels::cuda
