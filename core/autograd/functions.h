// Differentiable functions on tensors: arithmetic, shapes, reductions, matrix products. Names and
// semantics follow PyTorch's functions of the same name. Mixed dtypes promote in the same way: bool
// < u8 < i32 < i64 < floating, and f16 with bf16 gives f32. A C++ scalar never changes the dtype of
// a floating tensor. Errors name the op, its arguments and the legal ones. Errors about a tensor's
// values name one value and its position in row-major order.
//
// As in PyTorch, functions of a dimension treat a tensor without dimensions as a vector of one
// element, so 0 and -1 are legal. Exceptions are functions that cut: narrow, select, slice, split,
// chunk, unbind, cat. neg, abs, floor, round, relu and sub refuse bool, and pow refuses two bool
// tensors; equal(mask, 0) inverts a mask. Written values, bounds and whole exponents must be values
// of the tensor's dtype.
#pragma once

#include "core/tensor/tensor.h"

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace booster {

// --- Indexing of a tensor with Python's brackets:
//
//   x[{Slice(1, {}, 2), 0}]          x[1::2, 0]
//   x[{ellipsis, new_axis}]          x[..., None]
//   x[{Slice(), rows}]               x[:, rows], rows an i64 tensor
//   x[greater(x, 0)]                 x[x > 0]: a mask
//
// Each index takes the next dimension; remaining dimensions stay whole. Recorded on the tape.

// start:end:step. Negative positions count from the end, positions outside are clamped. step >= 1.
struct Slice {
  std::optional<int64_t> start, end;
  int64_t step;
  explicit Slice(std::optional<int64_t> start = {}, std::optional<int64_t> end = {},
                 int64_t step = 1)
      : start(start), end(end), step(step) {}
};

// Stands for all whole dimensions that the other indices leave.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;

// Adds a dimension of size 1; takes none of x's.
struct NewAxis {};
inline constexpr NewAxis new_axis;

// One index. A position (negative: from the end) removes its dimension. A Slice keeps it. At most
// one index is a tensor. A tensor of positions (i64 or i32) replaces the dimension by its shape. A
// mask (bool) covers as many dimensions as it has; they become one dimension of the selected
// elements.
class Index {
 public:
  using Value = std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor>;
  template <std::integral I>
  requires(!std::same_as<I, bool>) Index(I position) : value_(static_cast<int64_t>(position)) {}
  Index(Slice range) : value_(range) {}
  Index(Ellipsis dots) : value_(dots) {}
  Index(NewAxis axis) : value_(axis) {}
  Index(Tensor places) : value_(std::move(places)) {}
  const Value& value() const { return value_; }

 private:
  Value value_;
};

// --- elementwise, from the table: neg(x), exp(x), ..., add(a, b), mul(a, b), ...
#define UNARY(name, ...) Tensor name(const Tensor& x);
#define BINARY(name, ...)                        \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, double b);        \
  Tensor name(double a, const Tensor& b);
#define COMPARE(name, ...)                       \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, double b);
#include "kernels/elementwise.def"

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return sub(a, b); }
inline Tensor operator-(double a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return div(a, b); }
inline Tensor operator/(double a, const Tensor& b) { return div(a, b); }
// In place, as add_ and mul_ (core/tensor/tensor.h).
inline Tensor& operator+=(Tensor& a, const Tensor& b) { return a.add_(b); }
inline Tensor& operator-=(Tensor& a, const Tensor& b) { return a.add_(b, -1); }
inline Tensor& operator*=(Tensor& a, double b) { return a.mul_(b); }
// Masks, element by element. There is no operator==: equal(a, b).
inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return greater_equal(a, b); }

// The gradient is 0 at a bound and beyond.
Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// Returns the dtype of a result of a and b.
DType promoted(const Tensor& a, const Tensor& b);
DType promote(DType a, DType b);
// a + weight (b - a)
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
// x + factor a b, and x + factor a / b
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double factor = 1);
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double factor = 1);
// sqrt(a^2 + b^2); floor(a / b); the rest of a / b with a's sign; a log b, 0 where a is 0
Tensor hypot(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor xlogy(const Tensor& a, const Tensor& b);
// log(x / (1 - x)), with x clamped to [eps, 1 - eps]
Tensor logit(const Tensor& x, std::optional<double> eps = {});
// Replaces nan by `nan`, and infinities by the bounds; by default the dtype's largest numbers.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> high = {},
                  std::optional<double> low = {});

// --- masks (bool) from tensors of any dtype, where every value but 0 counts as true
Tensor logical_not(const Tensor& x);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
// True if any, or every, element is; over all dimensions if none are given.
Tensor any(const Tensor& x, const std::vector<int64_t>& dims = {}, bool keep_dims = false);
Tensor all(const Tensor& x, const std::vector<int64_t>& dims = {}, bool keep_dims = false);
Tensor count_nonzero(const Tensor& x, const std::vector<int64_t>& dims = {});  // i64
Tensor isinf(const Tensor& x);
// |a - b| <= atol + rtol |b|; equal infinities are close.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
// True where an element equals any of `values`.
Tensor isin(const Tensor& x, const Tensor& values);

// --- shapes: views where strides allow
Tensor reshape(const Tensor& x, const Shape& shape);  // one size may be -1
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1);
Tensor permute(const Tensor& x, const std::vector<int>& order);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor expand(const Tensor& x, const Shape& shape);
// Sums over broadcast dimensions; the gradient of expand.
Tensor sum_to(const Tensor& x, const Shape& shape);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor contiguous(const Tensor& x);
// Returns images (n, c, h, w) in the memory order (n, h, w, c), in which a CPU convolves them
// fastest: core/tensor/channels_last.h. The gradient is contiguous. Throws unless x has 4
// dimensions.
Tensor channels_last(const Tensor& x);
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
// Returns parts of `size`, the last perhaps shorter; or of these sizes, whose sum must be the
// dimension's. One node of the tape for all parts.
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0);
// Returns at most `count` parts, all of the same size but the last.
std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t dim = 0);
// Returns every slice of size 1, without that dimension; one node too.
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
// Returns Python's x[start:end:step] in that dimension. Negative positions count from the end, and
// positions outside are clamped. step >= 1.
Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end = {}, int64_t step = 1);
Tensor flip(const Tensor& x, const std::vector<int64_t>& dims);
// Shifts by each of `shifts` along the dimension at the same place of `dims`; what leaves at the
// end enters at the start. Without dims, x counts as one vector.
Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts,
            const std::vector<int64_t>& dims = {});
// x as often as `counts` say along each dimension; tile takes counts for the last dimensions only.
Tensor repeat(const Tensor& x, const std::vector<int64_t>& counts);
Tensor tile(const Tensor& x, std::vector<int64_t> counts);
// Each slice of `dim` `count` times in sequence, or as often as `counts` (i64) say; without `dim`,
// x counts as one vector.
Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int64_t> dim = {});
Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::optional<int64_t> dim = {});
Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes);  // one size may be -1
// Returns windows of `size` positions at every `step`-th one of `dim`, as a new last dimension.
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
// Returns a grid's coordinates from vectors: shape (n0, n1, ...) each, or (n1, n0, ...) for "xy".
std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, const std::string& indexing = "ij");
// A vector on a diagonal of zeros, or a matrix's diagonal; diag_embed adds a dimension at the end.
Tensor diag(const Tensor& x, int64_t offset = 0);
Tensor diag_embed(const Tensor& x, int64_t offset = 0);
// Returns the elements at equal positions in two dimensions, as a new last dimension of the smaller
// size.
Tensor diagonal(const Tensor& x, int64_t dim0 = 0, int64_t dim1 = 1);
// Adds borders of `value` before and after the last dimension, the one before it, ...: {left,
// right, top, bottom}. Negative sizes crop.
Tensor pad(const Tensor& x, const std::vector<int64_t>& sizes, double value = 0);
// Pads by mode: "constant" (0), "reflect" (without the edge; narrower than the side), "replicate"
// (the edge) or "circular" (from the other end; at most as wide). Modes other than "constant" pad 1
// to 3 dimensions, after one or two unpadded ones.
Tensor pad(const Tensor& x, const std::vector<int64_t>& sizes, const std::string& mode);
// Returns x with `value` where the mask is true. The mask broadcasts to x; `value` must be a value
// of x's dtype.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
// Zero elements of matrices (..., rows, columns): tril above the diagonal, triu below it.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
// Returns i64 (index shape..., classes). Throws for an index outside.
Tensor one_hot(const Tensor& index, int64_t classes);
// Returns slices of a dimension at positions (n), i64 or i32. Throws for a position out of range.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
// --- by element: `index` (i64 or i32) has x's number of dimensions, and at most x's sizes except
// in dim y[i][j] = x[i][index[i][j]], here along the last dimension
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
// Returns x with y[i][index[i][j]] = numbers[i][j]. If several write to one place, the last in
// row-major order stays. `numbers` has x's dtype and at least the index's sizes. Throws for an
// index out of range.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& numbers);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value);
// Returns x with y[i][index[i][j]] += terms[i][j], always added in the same order.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& terms);
// Return x with slices `index` (n) of a dimension increased by factor terms, or replaced.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& terms,
                 double factor = 1);
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& slices);
// Elements at row-major positions; where a mask that broadcasts is true: (n).
Tensor take(const Tensor& x, const Tensor& index);
Tensor masked_select(const Tensor& x, const Tensor& mask);
// Returns the positions of nonzero elements, (n, dimensions) i64. This and the four functions below
// run on the host, unrecorded.
Tensor nonzero(const Tensor& x);
// Returns how often 0, 1, ... occur in x (n), or the sums of their weights.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t min_length = 0);
struct Unique {
  Tensor values, inverse, counts;  // sorted; x's elements as positions in values; occurrences
};
Unique unique(const Tensor& x);
// Returns where each value would be inserted into sorted rows (..., n) to keep their order: before
// equal elements, or after them if `right`. bucketize takes one row for all values.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
Tensor bucketize(const Tensor& values, const Tensor& bounds, bool right = false);

// --- by order along a dimension. Results are values and i64 indices. Equal values keep their order
// (stable), nan counts as the largest, and gradients go to the elements at the indices.
std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);
// Returns the k largest (or smallest) values, in order.
std::pair<Tensor, Tensor> topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);
// Returns the prefix sums along dim; i64 for integers.
Tensor cumsum(const Tensor& x, int64_t dim);
Tensor cumprod(const Tensor& x, int64_t dim);  // prefix products
// The differences of neighbours, n times over.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1);
// Returns the k-th smallest value, the lower one of two in the middle, or the value below which a
// share q of the elements lies, between two neighbours by their distance.
std::pair<Tensor, Tensor> kthvalue(const Tensor& x, int64_t k, int64_t dim = -1,
                                   bool keep_dim = false);
std::pair<Tensor, Tensor> median(const Tensor& x, int64_t dim, bool keep_dim = false);
Tensor median(const Tensor& x);
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keep_dim = false);

// --- reductions; over all dimensions if none are given
Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims = false);
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// Products; sums and means of the elements that are not nan.
Tensor prod(const Tensor& x);
Tensor prod(const Tensor& x, int64_t dim, bool keep_dim = false);
Tensor nansum(const Tensor& x, const std::vector<int64_t>& dims = {}, bool keep_dims = false);
Tensor nanmean(const Tensor& x, const std::vector<int64_t>& dims = {}, bool keep_dims = false);
Tensor var(const Tensor& x, const std::vector<int64_t>& dims, bool unbiased = true,
           bool keep_dims = false);
// Equal extremes share the gradient.
Tensor amax(const Tensor& x, const std::vector<int64_t>& dims = {}, bool keep_dims = false);
Tensor amin(const Tensor& x, const std::vector<int64_t>& dims = {}, bool keep_dims = false);
// Returns values and i64 indices; the gradient goes only to the element at that index.
std::pair<Tensor, Tensor> max(const Tensor& x, int64_t dim, bool keep_dim = false);
std::pair<Tensor, Tensor> min(const Tensor& x, int64_t dim, bool keep_dim = false);
Tensor argmax(const Tensor& x, int64_t dim, bool keep_dim = false);
Tensor argmin(const Tensor& x, int64_t dim, bool keep_dim = false);
// Returns the same over all elements; the index is in row-major order. Equal extremes share the
// gradient.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
Tensor logsumexp(const Tensor& x, int64_t dim, bool keep_dim = false);
Tensor logsumexp(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims = false);
// Returns the square root of var.
Tensor stddev(const Tensor& x, const std::vector<int64_t>& dims, bool unbiased = true,
              bool keep_dims = false);
// Returns (sum |x|^p)^(1 / p) of all elements, or over dimensions. p = inf: the largest |x|; p =
// -inf: the smallest; p = 0: the count of nonzeros. A norm of 0 has gradient 0.
Tensor norm(const Tensor& x);
Tensor norm(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims = false,
            double p = 2);
// Returns true where x is neither infinite nor nan.
Tensor isfinite(const Tensor& x);
Tensor isnan(const Tensor& x);

// --- matrix products
// (batch, m, k) x (batch, k, n)
Tensor bmm(const Tensor& a, const Tensor& b);
// Multiplies as torch.matmul: vectors, matrices, batches with broadcasting.
Tensor matmul(const Tensor& a, const Tensor& b);
// a[i] b[j] of vectors; vector products along a dimension of 3; distances of all rows of (..., n,
// d) and (..., m, d), (sum |a - b|^p)^(1 / p)
Tensor outer(const Tensor& a, const Tensor& b);
Tensor cross(const Tensor& a, const Tensor& b, int64_t dim = -1);
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);
// Computes an Einstein summation: einsum("bij,bjk->bik", {a, b}). Terms consist of letters and at
// most one "...", which stands for leading dimensions that broadcast. Without "->" the result has
// the letters that occur once in the equation, in alphabetical order. Several operands are
// multiplied from left to right. A repeated letter in one term selects the diagonal: einsum("ii",
// {a}) is the trace.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
// x w^T + bias; x (..., in), w (out, in), bias (out) or undefined
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
// The same, but while a tape records, the values are computed when something first reads them.
// cross_entropy never does: so the logits of a language model take no memory. Throws at the first
// read if an argument was changed in place before it, by an optimizer for example.
Tensor linear_on_use(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// --- making tensors, besides those of core/tensor/tensor.h
// Returns first, first + step, ... before `end`: i64 for whole numbers, else f32.
Tensor arange_by(double first, double end, double step, TensorOptions options);
template <class A, class B, class C = int,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
Tensor arange(A first, B end, C step = 1,
              TensorOptions options = {.dtype = std::is_integral_v<decltype(A() + B() + C())>
                                                    ? DType::i64
                                                    : DType::f32}) {
  return arange_by(double(first), double(end), double(step), options);
}
Tensor full_like(const Tensor& x, double value);
Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, TensorOptions options = {});

}  // namespace booster
