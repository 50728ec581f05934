#include "mixed_precision/strategies/fp64.h"

#include "core/autograd/functions.h"
#include "mixed_precision/built_in.h"
#include "platform/copies.h"

namespace booster {

namespace {

Tensor in_f64(const Tensor& x) { return is_floating(x.dtype()) ? cast(x, DType::f64) : x; }

}  // namespace

void FP64::prepare(const Model& model, const Optimizers& optimizers) {
  cast_models({model}, optimizers, {.dtype = DType::f64, .masters = false});
}

Tensor FP64::cast_input(const Tensor& x) const { return in_f64(x); }

// Casts the output to f64, so that losses are f64 even if a custom module casts its result.
Tensor FP64::cast_output(const Tensor& y) const { return in_f64(y); }

PrecisionMaker FP64Precision() { return copies_of<Precision>(FP64()); }

}  // namespace booster
