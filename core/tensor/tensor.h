// Tensor: the one value type. A handle to a strided view of shared storage, with a dtype, a device
// and (for autograd) an optional tracking record.
//
// Copying a Tensor copies the handle, not the values; views share storage. Distinct threads may use
// distinct tensors; use a single tensor on one thread at a time. Functions here never record on the
// tape, except in-place changes. Differentiable functions are in core/autograd.
#pragma once

#include "core/tensor/shape.h"
#include "core/tensor/storage.h"
#include "kernels/arguments/view.h"

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace booster {

class Index;  // core/autograd/functions.h

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = {};
};

// The type of `{}` in `GradScaler({})`: options with none set. Without it, empty braces would be
// ambiguous: default options, or a default-made object to copy. Braces become this enum by an
// identity conversion, so overload resolution prefers a constructor that takes it.
enum class NoOptions : uint8_t {};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::u8;
  else {
    static_assert(std::is_same_v<T, bool>, "want float, double, int32_t, int64_t, uint8_t or bool");
    return DType::boolean;
  }
}

// The dimensions of a reduction: one, several in braces, or none for all.
class Dims {
 public:
  Dims(int64_t one) : dims_{one} {}
  Dims(std::initializer_list<int64_t> dims) : dims_(dims) {}
  Dims(std::vector<int64_t> dims) : dims_(std::move(dims)) {}
  const std::vector<int64_t>& all() const { return dims_; }

 private:
  std::vector<int64_t> dims_;
};

class Tensor {
 public:
  // Makes an undefined tensor, without values. Calls throw, except defined, shares_storage, view,
  // to_string, body and same_body.
  Tensor() = default;
  explicit Tensor(Reference<TensorBody> body) : body_(std::move(body)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // Makes this handle refer to the other tensor. Does not compile for a temporary, as in
  // `x[0] = y`, which would change nothing. x[0].copy_(y) writes into x.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  bool defined() const { return static_cast<bool>(body_); }
  const Shape& shape() const { return body_of("shape").shape; }
  const Shape& strides() const { return body_of("strides").strides; }
  int ndim() const { return body_of("ndim").shape.ndim(); }
  int64_t size(int64_t dim) const { return body_of("size").shape[normal_dim("size", dim, ndim())]; }
  int64_t numel() const { return body_of("numel").shape.numel(); }
  DType dtype() const { return body_of("dtype").dtype; }
  Device device() const { return body_of("device").storage->device; }
  int64_t bytes() const { return numel() * size_of(dtype()); }
  bool is_contiguous() const;
  // Returns true if both are views of the same storage.
  bool shares_storage(const Tensor& other) const;

  // Returns a pointer to the first element, on the tensor's device.
  void* data() const {
    const TensorBody& body = body_of("data");
    if (!body.storage->has_memory()) [[unlikely]]
      body.storage->use();
    if (recording_threads.load(std::memory_order_relaxed) > 0) [[unlikely]]
      note_use(body.storage);
    return static_cast<char*>(body.storage->data) + body.offset * size_of(body.dtype);
  }
  // Returns the same with a type, on the CPU. Throws if the dtype is not T's, the device is not the
  // CPU, or the tensor is not contiguous.
  template <class T>
  T* data() const {
    check_host_access(dtype_of<T>());
    return static_cast<T*>(data());
  }
  // Returns a view for kernels. An undefined tensor gives a view without data, for an omitted
  // argument.
  kernels::View view() const;

  // Returns the one element as a double; throws if there is not exactly one. Waits for the device.
  double item() const;
  // Returns all elements in row-major order, converted to T from any dtype and device.
  template <class T>
  std::vector<T> to_vector() const;
  // Returns the values as text, abbreviated for long tensors: "[[1, 2], [3, 4]] f32 (2, 2)".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& stream, const Tensor& x);

  // Change the tensor in place. As in torch, the tape records them while gradients are on. If the
  // tensor is a result on the tape, or the source requires gradients, the tensor becomes the call's
  // result. The calls then throw for a leaf that requires gradients, for memory that another tensor
  // shares (a view or a saved tensor) unless this tensor was detached from it, and for a source on
  // another device. NoGradGuard turns recording off.
  Tensor& fill_(double value);  // throws for a number outside the dtype's range
  Tensor& zero_() { return fill_(0); }
  Tensor& copy_(const Tensor& from);  // any dtype, device; from broadcasts to this shape
  Tensor& add_(const Tensor& other, double factor = 1);
  Tensor& mul_(double factor);
  uint32_t version() const { return body_of("version").storage->version; }
  void bump_version() const {
    const TensorBody& body = body_of("bump_version");
    ++body.storage->version;
    if (recording_threads.load(std::memory_order_relaxed) > 0) [[unlikely]]
      note_change(body.storage);
  }

  // Returns the same values, detached from the tape.
  Tensor detach() const;
  // --- autograd's part, implemented in core/autograd/tracking.cpp
  bool requires_grad() const {
    const TensorBody& body = body_of("requires_grad");
    return body.tracking && body.tracking->requires_grad;
  }
  Tensor& requires_grad_(bool requires_grad = true);
  // Returns the accumulated gradient of a leaf, or an undefined tensor.
  Tensor grad() const;
  void set_grad(Tensor grad) const;  // of the leaf's dtype, or f32 for a 16-bit leaf
  bool is_leaf() const;
  // Runs the tape from this scalar: see core/autograd/tape.h.
  void backward() const;
  // Returns element or slice `index` of the first dimension, from the end if negative; recorded
  // (select).
  Tensor operator[](int64_t index) const;
  // Returns a part, like Python's brackets: x[{Slice(1, {}, 2), 0}] (core/autograd/functions.h).
  Tensor operator[](std::initializer_list<Index> places) const;
  // The same for one tensor: a mask (bool) or positions (i64).
  Tensor operator[](const Tensor& places) const;
  // Returns a dense copy in fresh memory; recorded. detach().clone() is a copy without history.
  Tensor clone() const;
  // Returns a copy on another device, or the tensor itself if it is there; recorded.
  Tensor to(Device device) const;
  // Returns x in another dtype, or itself if it has that dtype; recorded (cast).
  template <class D>
  requires std::is_same_v<D, DType> Tensor to(D dtype)
  const { return cast_to(dtype); }

  // --- functions of core/autograd/functions.h as members, defined in core/autograd/members.cpp:
  // x.exp(), x.mul(y), x.pow(2) from the table, reductions and rearrangements
#define UNARY(name, ...) Tensor name() const;
#define BINARY(name, ...)                 \
  Tensor name(const Tensor& other) const; \
  Tensor name(double other) const;
#include "kernels/elementwise.def"
  Tensor clamp(std::optional<double> low, std::optional<double> high = {}) const;
  Tensor sum(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor mean(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor var(const Dims& dims = {}, bool unbiased = true, bool keep_dims = false) const;
  Tensor stddev(const Dims& dims = {}, bool unbiased = true, bool keep_dims = false) const;
  Tensor norm(const Dims& dims = {}, bool keep_dims = false, double p = 2) const;
  Tensor max() const;
  Tensor min() const;
  std::pair<Tensor, Tensor> max(int64_t dim, bool keep_dim = false) const;
  std::pair<Tensor, Tensor> min(int64_t dim, bool keep_dim = false) const;
  Tensor argmax() const;
  Tensor argmin() const;
  Tensor argmax(int64_t dim, bool keep_dim = false) const;
  Tensor argmin(int64_t dim, bool keep_dim = false) const;
  Tensor cumsum(int64_t dim) const;
  Tensor matmul(const Tensor& other) const;
  Tensor reshape(const Shape& shape) const;
  // Returns a view of this shape. Throws if the strides allow no view, as in PyTorch.
  Tensor view(const Shape& shape) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  // Returns the transpose; for at most two dimensions.
  Tensor t() const;
  Tensor permute(const std::vector<int>& order) const;
  Tensor expand(const Shape& shape) const;
  Tensor squeeze(int64_t dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor contiguous() const;

  TensorBody* body() const { return body_.get(); }  // null if undefined
  bool same_body(const Tensor& other) const { return body_ == other.body_; }

 private:
  TensorBody& body_of(const char* call) const {
    if (!body_) [[unlikely]]
      refuse_undefined(call);
    return *body_;
  }
  [[noreturn]] static void refuse_undefined(const char* call);
  Tensor cast_to(DType dtype) const;
  void check_host_access(DType dtype) const;
  void check_in_place(const char* op, const Tensor& source = Tensor()) const;
  void record_in_place(const InPlaceCall& call, const Tensor& source = Tensor()) const;
  Reference<TensorBody> body_;
};

// --- whether the calling thread records on the tape; in-place changes of tensors check it
bool grad_enabled();

// Sets the mode until the scope ends.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};
struct NoGradGuard : GradMode {
  NoGradGuard() : GradMode(false) {}
};

// --- making tensors. These throw for a negative size, for more bytes than 64 bits can count, and
// for a number outside the dtype's range. As in torch, integer dtypes truncate fractions, any
// number except 0 is true, and large numbers become infinity in f16 and bf16.
Tensor empty(const Shape& shape, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor full(const Shape& shape, double value, TensorOptions options = {});
// Returns 0, 1, ..., n - 1.
Tensor arange(int64_t n, TensorOptions options = {.dtype = DType::i64});
// Returns the position, in the whole sequence, of the first of `tokens` consecutive tokens, for a
// module that needs positions; 0 if these are all. Where ranks share tokens (docs/parallelism.md),
// a module may see only some; throws if `tokens` is neither the total count nor this rank's.
//   const Tensor positions = arange(tokens) + static_cast<double>(first_token(tokens));
int64_t first_token(int64_t tokens);
// Returns n values at equal distances, both ends included; only the first if n is 1.
Tensor linspace(double first, double last, int64_t n, TensorOptions options = {});
// Returns new dense memory with x's shape, dtype and device.
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
// Makes a tensor with a copy of the values. Throws if their number does not match the shape. The
// dtype is T's.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape);
Tensor scalar(double value, TensorOptions options = {});
// Returns a tensor on the caller's memory; calls `owner` when the last tensor releases it.
Tensor from_memory(void* data, const Shape& shape, TensorOptions options,
                   std::function<void()> owner = {});

// --- tensors that get memory and initial values at their first use (absence.h)
// Makes this thread's new tensors have no memory until their first use, while it lives:
//   Model model;
//   { const LazyInit lazy; model = models::vit(name); }        // no memory so far
// Their values are the same as without it, for any order of first uses.
class LazyInit {
 public:
  LazyInit();
  ~LazyInit();
  LazyInit(const LazyInit&) = delete;
  LazyInit& operator=(const LazyInit&) = delete;
  static bool is_active();

 private:
  bool before_;
};

// --- tensors with names, as a model passes them to its optimizer and checkpoints. Names are dotted
// ("blocks.0.norm1.weight"), in order of registration.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

using Parameters = std::vector<NamedTensor>;

// Returns true for a dotted name that is `part` or lies below it: "encoder.norm" lies in "encoder".
inline bool lies_in(const std::string& name, const std::string& part) {
  return name == part || (name.starts_with(part) && name[part.size()] == '.');
}

// One number on the device. Converting it to double reads it, which waits for the device. Shares
// the given tensor, which must not be written afterwards.
class DeviceNumber {
 public:
  explicit DeviceNumber(Tensor number) : number_(std::move(number)) {}
  operator double() const { return number_.item(); }
  const Tensor& tensor() const { return number_; }

 private:
  Tensor number_;
};

// --- views and copies that are never recorded (core/autograd has the recorded ones)
namespace untracked {
// Returns a view with any shape, strides and offset (in elements, from the start of the storage).
// Throws if it leaves the storage.
Tensor strided(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset);
// Returns a view if the strides allow one, else a copy. One size may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor permute(const Tensor& x, const std::vector<int>& order);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor expand(const Tensor& x, const Shape& shape);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor contiguous(const Tensor& x);
// Returns a dense copy in fresh memory.
Tensor clone(const Tensor& x);
// Returns a copy on another device, or x itself if it is there.
Tensor to(const Tensor& x, Device device);
// Converts x to a dtype. Keeps the order of x's dimensions in memory, as elementwise functions do
// (docs/porting.md).
Tensor cast(const Tensor& x, DType dtype);
// Sums x down to a shape that broadcasts to x's.
Tensor sum_to(const Tensor& x, const Shape& shape);
}  // namespace untracked

}  // namespace booster
