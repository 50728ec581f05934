#include "kernels/cuda/products/library_convolution.h"

namespace booster::kernels::cuda {

bool library_convolution(ConvolutionPass, const View&, const View&, const View&, const View&,
                         const Window2d&) {
  return false;
}

size_t convolution_library_version() { return 0; }

const std::string& why_no_convolution_library() {
  static const std::string reason = "built without cudnn.h";
  return reason;
}

}  // namespace booster::kernels::cuda
