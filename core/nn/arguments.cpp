#include "core/nn/arguments.h"

#include "core/autograd/gradient_keeper.h"

// Texts are formatted only on an error, because formatting shapes costs more than small kernels.
namespace booster::arguments {

void floating(const char* op, const char* name, const Tensor& x) {
  check(x.defined(), "{}: {} is undefined", op, name);
  check(is_floating(x.dtype()), "{}: {} has the wrong dtype; got {}, want f32, f64, f16 or bf16",
        op, name, name_of(x.dtype()));
}

void optional_shape(const char* op, const char* name, const Tensor& x, const Shape& shape) {
  if (!x.defined() || x.shape() == shape) return;
  fail("{}: {} has the wrong shape; got {}, want {}", op, name, x.shape(), shape);
}

void same_dtype(const char* op, const char* name, const Tensor& argument, const Tensor& x) {
  if (!argument.defined() || argument.dtype() == x.dtype()) return;
  fail("{}: dtypes differ; got {} for {}, want the input's dtype, {}{}", op,
       name_of(argument.dtype()), name, name_of(x.dtype()), boosted_hint(argument));
}

void parameter_dtype(const char* op, const char* name, const Tensor& argument, const Tensor& x) {
  if (!argument.defined() || argument.dtype() == x.dtype()) return;
  if (argument.dtype() == DType::f32 && is_16_bit(x.dtype())) return;
  fail("{}: {} has the wrong dtype; got {}, want {}{}{}", op, name, name_of(argument.dtype()),
       name_of(x.dtype()), is_16_bit(x.dtype()) ? " or f32" : ", the input's dtype",
       boosted_hint(argument));
}

Tensor indices(const char* op, const char* name, const Tensor& x) {
  check(x.defined(), "{}: {} is undefined", op, name);
  const bool whole = x.dtype() == DType::i64 || x.dtype() == DType::i32 || x.dtype() == DType::u8;
  check(whole, "{}: {} has the wrong dtype; got {}, want i64, i32 or u8", op, name,
        name_of(x.dtype()));
  return untracked::contiguous(untracked::cast(x, DType::i64));
}

void probability(const char* op, const char* name, double p) {
  check(p >= 0 && p <= 1, "{}: {} is not a probability; got {}, want 0 to 1", op, name, p);
}

}  // namespace booster::arguments
