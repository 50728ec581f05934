// Matrix products by cuBLASLt.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels::cuda {

// out = a b + bias + beta * out, as the catalogue's matmul and linear; `bias` may be absent. False
// if the library is missing or has no way for this dtype, layout or size: nothing was computed.
bool library_product(const View& out, const View& a, const View& b, const View& bias, double beta);

}  // namespace booster::kernels::cuda
