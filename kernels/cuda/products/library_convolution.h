// Convolutions by cuDNN. A module that is built without its header has library_convolution_off.cpp
// instead.
#pragma once

#include "kernels/arguments/convolution.h"

#include <cstddef>
#include <string>

namespace booster::kernels::cuda {

// Computes the pass's result from the other two, as the catalogue's conv2d, conv2d_backward_input
// and conv2d_backward_weight do; only `forward` may have a bias. False if cuDNN is missing or has
// no way for this dtype or size: then the result's numbers mean nothing.
bool library_convolution(ConvolutionPass pass, const View& x, const View& weight, const View& y,
                         const View& bias, const Window2d& window);

// The library's, as it gives it; 0 without one.
size_t convolution_library_version();
// Why there is none; empty if there is one.
const std::string& why_no_convolution_library();

}  // namespace booster::kernels::cuda
