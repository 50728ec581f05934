// Matrix products by cuBLASLt.
#pragma once

#include "kernels/view.h"

namespace booster::kernels::cuda {

// out = a b + bias + beta * out, as the catalogue's matmul and linear; `bias` may be absent. False
// if the library is missing or has no way for this dtype, layout or size: nothing was computed.
bool library_product(const View& out, const View& a, const View& b, const View& bias, double beta);
// out = a b + beta * out, and row_sums = the sums of the rows of a, in f32 (f64 for f64) and
// rounded once, in the same call.
bool library_product_and_sums(const View& out, const View& row_sums, const View& a, const View& b,
                              double beta);

}  // namespace booster::kernels::cuda
