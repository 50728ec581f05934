// Convolutions by cuDNN. A module built without its header has library_convolution_off.cpp instead.
#pragma once

#include "kernels/arguments/convolution.h"

#include <cstddef>
#include <string>

namespace booster::kernels::cuda {

// Computes the pass's result from the other two, as the catalogue's conv2d, conv2d_backward_input
// and conv2d_backward_weight do; only `forward` may have a bias. Returns false if cuDNN is missing
// or does not support this dtype or size; the result is undefined then.
bool library_convolution(ConvolutionPass pass, const View& x, const View& weight, const View& y,
                         const View& bias, const Window2d& window);

// Returns the library's version in its own format; 0 if there is none.
size_t convolution_library_version();
// Returns why there is no library; empty if there is one.
const std::string& why_no_convolution_library();

}  // namespace booster::kernels::cuda
