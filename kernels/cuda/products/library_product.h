// Matrix products by cuBLASLt.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels::cuda {

// Computes out = a b + bias + beta * out, as the catalogue's matmul and linear; `bias` may be
// absent. Returns false, and computes nothing, if the library is missing or does not support this
// dtype, layout or size.
bool library_product(const View& out, const View& a, const View& b, const View& bias, double beta);

}  // namespace booster::kernels::cuda
