#include "core/tensor/tensor.h"

#include "core/tensor/absence.h"
#include "core/tensor/held_number.h"
#include "core/tensor/host_reads.h"
#include "core/tensor/later_checks.h"
#include "core/tensor/overlap.h"
#include "core/tensor/token_layout.h"
#include "kernels/catalogue.h"
#include "kernels/device/memory.h"

#include <cmath>
#include <cstring>

namespace booster {
namespace {
thread_local bool grad_mode = true;
thread_local int64_t reads = 0;
}  // namespace

int64_t host_reads() { return reads; }

bool grad_enabled() { return grad_mode; }
GradMode::GradMode(bool enabled) : before_(grad_mode) { grad_mode = enabled; }
GradMode::~GradMode() { grad_mode = before_; }

void Tensor::refuse_undefined(const char* call) { fail("{}: tensor is undefined", call); }

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  bool is_dense = true;
  for (int i = ndim() - 1; i >= 0; --i) {
    if (shape()[i] == 0) return true;
    is_dense &= shape()[i] == 1 || strides()[i] == expected;
    expected *= shape()[i];
  }
  return is_dense;
}

bool Tensor::shares_storage(const Tensor& other) const {
  return defined() && other.defined() && body_->storage == other.body_->storage;
}

kernels::View Tensor::view() const {
  kernels::View view;
  if (!body_) return view;
  view.data = data();
  view.dtype = body_->dtype;
  view.device = device();
  view.ndim = ndim();
  for (int i = 0; i < view.ndim; ++i) {
    view.shape[i] = body_->shape[i];
    view.strides[i] = body_->strides[i];
  }
  return view;
}

void Tensor::check_host_access(DType wanted) const {
  check(defined(), "data: tensor is undefined");
  check(dtype() == wanted, "data: wrong type; got {1}, want {0}, the tensor's", name_of(dtype()),
        name_of(wanted));
  check(device().type == DeviceType::cpu,
        "data: tensor is not on the CPU; use to(Device{{}}) first");
  check(is_contiguous(),
        "data: tensor of shape {} and strides {} is not contiguous; use contiguous()", shape(),
        strides());
}

namespace {
// Throws for values that the dtype would change: fractions would be truncated, and numbers become
// true.
void check_keeps_dtype(const char* op, const Tensor& x, DType other, double factor) {
  const bool is_whole = factor == std::floor(factor) && std::abs(factor) < 0x1p63;
  const bool stays_whole = !is_floating(other) && is_whole;
  const bool stays_bool = x.dtype() != DType::boolean || other == DType::boolean;
  check(is_floating(x.dtype()) || (stays_whole && stays_bool),
        "{}: an in-place result keeps its dtype; got {} with {} and factor {}, want a floating "
        "tensor",
        op, name_of(x.dtype()), name_of(other), factor);
}

bool is_tracked(const Tensor& x) { return x.defined() && x.requires_grad(); }
}  // namespace

// Throws for changes that the tape cannot follow, since a gradient would be lost.
void Tensor::check_in_place(const char* op, const Tensor& source) const {
  check(defined(), "{}: tensor is undefined", op);
  if (!grad_enabled() || !is_floating(dtype())) return;
  if (!requires_grad() && !is_tracked(source)) return;
  check(!requires_grad() || !body_->tracking->is_leaf(),
        "{}: a leaf that requires gradients cannot change in place; got grad mode on, want a "
        "NoGradGuard or detach()",
        op);
  check(body_->is_detached || body_->storage->references() == 1,
        "{}: the tape cannot record an in-place change of memory that another tensor shares, such "
        "as a view or a saved tensor; got grad mode on, want a NoGradGuard, detach() of the source "
        "or a function that returns its result (add, cat, where, scatter)",
        op);
  check(!is_tracked(source) || source.device() == device(),
        "{}: the tape cannot record an in-place copy from another device; got grad mode on, want "
        "detach() of the source",
        op);
}

void Tensor::record_in_place(const InPlaceCall& call, const Tensor& source) const {
  const Tensor& tracked = requires_grad() ? *this : source;
  if (is_tracked(tracked)) tracked.body_->tracking->record(*this, source, call);
}

double Tensor::item() const {
  check(defined(), "item: tensor is undefined");
  check(numel() == 1, "item: want exactly one element; got shape {}", shape());
  return to_vector<double>()[0];
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  check(defined(), "to_vector: tensor is undefined");
  if (device() == Device{}) ++reads;  // otherwise to() counts the read
  const Tensor host = untracked::to(*this, Device{});
  // std::vector<bool> has no data(), so values are copied through a tensor.
  const Tensor values = untracked::contiguous(untracked::cast(host, dtype_of<T>()));
  const T* first = static_cast<const T*>(values.data());
  return std::vector<T>(first, first + values.numel());
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<int32_t> Tensor::to_vector() const;
template std::vector<int64_t> Tensor::to_vector() const;
template std::vector<uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

namespace {

void fill_with(const Tensor& x, double value) {
  write_numbers(x, [value](const Tensor& x) { kernels::on(x.device()).fill(x.view(), value); });
  x.bump_version();
}

}  // namespace

Tensor& Tensor::fill_(double value) {
  check_in_place("fill_");
  check_fill("fill_", value, dtype());
  fill_with(*this, value);
  record_in_place({"fill_", 0, 0});
  return *this;
}

namespace {

// Returns a view of `from`, as large as `to`. It views a copy if the call would read elements that
// it has already written.
Tensor widened(const char* op, const Tensor& from, const Tensor& to) {
  const Shape& shape = to.shape();
  check(broadcast_shapes(op, from.shape(), shape) == shape,
        "{}: the source is larger; got {}, want a shape that broadcasts to {}", op, from.shape(),
        shape);
  const Tensor wide = untracked::expand(from.detach(), shape);
  return is_source_written(to, wide) ? untracked::expand(untracked::clone(from), shape) : wide;
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& from) {
  check(from.defined(), "copy_: source is undefined");
  check_in_place("copy_", from);
  check_places_apart("copy_", *this);
  const Tensor here = widened("copy_", untracked::to(from, device()), *this);
  copy_to_part(*this, here);
  if (!kept_part(*this).defined() || has_memory(*this))
    kernels::on(device()).copy(view(), here.view());
  bump_version();
  record_in_place({"copy_", 0, 1}, from);
  return *this;
}

Tensor& Tensor::add_(const Tensor& other, double factor) {
  check_in_place("add_", other);
  check_keeps_dtype("add_", *this, other.dtype(), factor);
  check_held("add_", dtype() == DType::u8 ? std::abs(factor) : factor, dtype());
  check_places_apart("add_", *this);
  const Tensor wide = widened("add_", other, *this);
  const auto& table = kernels::on(device());
  if (factor == 1) {
    table.accumulate(view(), wide.view());
  } else if (dtype() == DType::boolean) {  // a factor is then true or false
    const Tensor scaled = empty(shape(), {dtype(), device()});
    table.binary_scalar(kernels::BinaryOp::mul, scaled.view(), wide.view(), factor, false);
    table.accumulate(view(), scaled.view());
  } else {
    table.accumulate_scaled(view(), wide.view(), factor);
  }
  bump_version();
  record_in_place({"add_", 1, factor}, other);
  return *this;
}

Tensor& Tensor::mul_(double factor) {
  check_in_place("mul_");
  const bool is_bool = dtype() == DType::boolean;  // true times a number gives a number
  check_keeps_dtype("mul_", *this, is_bool ? DType::i64 : dtype(), factor);
  check_places_apart("mul_", *this);
  kernels::on(device()).binary_scalar(kernels::BinaryOp::mul, view(), view(), factor, false);
  bump_version();
  record_in_place({"mul_", factor, 0});
  return *this;
}

Tensor untracked::clone(const Tensor& x) {
  check(x.defined(), "clone: tensor is undefined");
  Tensor copy = empty(x.shape(), {x.dtype(), x.device()});
  kernels::on(x.device()).copy(copy.view(), x.view());
  return copy;
}

Tensor untracked::to(const Tensor& x, Device target) {
  check(x.defined(), "to: tensor is undefined");
  if (x.device() == target) return x;
  if (target == Device{}) ++reads;
  const Tensor dense = contiguous(x);
  Tensor there = empty(x.shape(), {x.dtype(), target});
  kernels::device_copy(there.data(), target, dense.data(), x.device(),
                       static_cast<size_t>(x.bytes()));
  if (target == Device{}) run_later_checks(x.device());
  return there;
}

Tensor empty(const Shape& shape, TensorOptions options) {
  const int64_t bytes = dense_bytes("empty", shape, options.dtype);
  Reference<TensorBody> body(new TensorBody);
  body->storage = Reference<Storage>(
      LazyInit::is_active() ? new Storage(options.device, bytes, std::make_unique<Absence>())
                            : new Storage(options.device, bytes));
  body->shape = shape;
  body->strides = shape.dense_strides();
  body->dtype = options.dtype;
  return Tensor(std::move(body));
}

namespace {

Tensor filled(const char* op, const Shape& shape, double value, TensorOptions options) {
  check_fill(op, value, options.dtype);
  const Tensor x = empty(shape, options);
  fill_with(x, value);
  return x;
}

}  // namespace

Tensor full(const Shape& shape, double value, TensorOptions options) {
  return filled("full", shape, value, options);
}
Tensor zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }
Tensor scalar(double value, TensorOptions options) { return filled("scalar", {}, value, options); }
Tensor empty_like(const Tensor& x) { return empty(x.shape(), {x.dtype(), x.device()}); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), {x.dtype(), x.device()}); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), {x.dtype(), x.device()}); }

namespace {

// Computes prefix sums, so that the host does not wait for the GPU.
Tensor arange_there(int64_t n, TensorOptions options) {
  const auto& table = kernels::on(options.device);
  const Tensor y = ones({n}, {DType::f64, options.device}), numbers = empty_like(y);
  table.cumsum(numbers.view(), y.view(), 0, false);
  table.binary_scalar(kernels::BinaryOp::sub, y.view(), numbers.view(), 1, false);
  return untracked::cast(y, options.dtype);
}

}  // namespace

Tensor arange(int64_t n, TensorOptions options) {
  check(n >= 0, "arange: negative length; got {}", n);
  check(options.dtype != DType::boolean, "arange: wrong dtype; got bool, want a dtype of numbers");
  note_counting(n);
  if (options.device != Device{} && n > 0) return arange_there(n, options);
  Tensor values = empty({n}, {.dtype = DType::i64});
  int64_t* numbers = values.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) numbers[i] = i;
  return untracked::to(untracked::cast(values, options.dtype), options.device);
}

// Counts each half from its own end, so that both ends are exact.
Tensor linspace(double first, double last, int64_t n, TensorOptions options) {
  check(n >= 0, "linspace: negative length; got {}", n);
  check(options.dtype != DType::boolean,
        "linspace: wrong dtype; got bool, want a dtype of numbers");
  for (const double end : {first, last}) check_held("linspace", end, options.dtype);
  const double step = n > 1 ? (last - first) / static_cast<double>(n - 1) : 0;
  const Tensor values = empty({n}, {.dtype = DType::f64});
  auto* numbers = static_cast<double*>(values.data());
  const int64_t half = n == 1 ? 1 : n / 2;
  for (int64_t i = 0; i < half; ++i) numbers[i] = first + step * static_cast<double>(i);
  for (int64_t i = half; i < n; ++i) numbers[i] = last - step * static_cast<double>(n - 1 - i);
  return untracked::to(untracked::cast(values, options.dtype), options.device);
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape) {
  check(static_cast<int64_t>(values.size()) == shape.numel(),
        "from_vector: number of values does not match the shape; got {}, want {} for {}",
        values.size(), shape.numel(), shape);
  Tensor x = empty(shape, {.dtype = dtype_of<T>()});
  T* data = static_cast<T*>(x.data());
  for (size_t i = 0; i < values.size(); ++i) data[i] = values[i];
  return x;
}
template Tensor from_vector(const std::vector<float>&, const Shape&);
template Tensor from_vector(const std::vector<double>&, const Shape&);
template Tensor from_vector(const std::vector<int32_t>&, const Shape&);
template Tensor from_vector(const std::vector<int64_t>&, const Shape&);
template Tensor from_vector(const std::vector<uint8_t>&, const Shape&);
template Tensor from_vector(const std::vector<bool>&, const Shape&);

Tensor from_memory(void* data, const Shape& shape, TensorOptions options,
                   std::function<void()> owner) {
  const int64_t bytes = dense_bytes("from_memory", shape, options.dtype);
  check(data || bytes == 0, "from_memory: no memory; got a null pointer for shape {}", shape);
  Reference<TensorBody> body(new TensorBody);
  body->storage = Reference<Storage>(new Storage(options.device, data, bytes, std::move(owner)));
  body->shape = shape;
  body->strides = shape.dense_strides();
  body->dtype = options.dtype;
  return Tensor(std::move(body));
}

}  // namespace booster
