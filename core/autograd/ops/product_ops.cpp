// Products along dimensions, order statistics, and products of all pairs: composed of other
// functions.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/ops/defined.h"
#include "core/autograd/ops/vectors.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

// Returns x in the dtype in which products of several elements are computed: i64 for integers, f32
// for 16 bits.
Tensor for_products(const Tensor& x) {
  if (!is_floating(x.dtype())) return untracked::cast(x, DType::i64);
  return x.dtype() == DType::f64 ? x : x.to(DType::f32);
}

Tensor in_dtype_of(const Tensor& y, const Tensor& x) {
  return is_floating(x.dtype()) ? y.to(x.dtype()) : y;
}

// Multiplies the halves of a dimension until one slice is left; a factor of 0 has its gradient.
Tensor product_along(Tensor y, int d) {
  if (y.size(d) == 0) {
    Shape shape = y.shape();
    shape[d] = 1;
    return ones(shape, {y.dtype(), y.device()});
  }
  while (y.size(d) > 1) {
    const int64_t n = y.size(d), half = n / 2;
    const Tensor pairs = narrow(y, d, 0, half) * narrow(y, d, half, half);
    y = n % 2 ? cat({pairs, narrow(y, d, n - 1, 1)}, d) : pairs;
  }
  return y;
}

std::pair<Tensor, Tensor> slice_of_order(const std::pair<Tensor, Tensor>& sorted, int d, int64_t at,
                                         bool keep_dim) {
  const Tensor values = narrow(sorted.first, d, at, 1), index = narrow(sorted.second, d, at, 1);
  if (keep_dim) return {values, index};
  return {squeeze(values, d), squeeze(index, d)};
}

// Returns nan instead of the values of rows that have one.
Tensor nan_where_any(const Tensor& values, const Tensor& x, int d, bool keep_dim) {
  if (!is_floating(x.dtype())) return values;
  return where(any(isnan(x.detach()), {d}, keep_dim), full({}, NAN, {x.dtype(), x.device()}),
               values);
}

}  // namespace

Tensor prod(const Tensor& x, int64_t dim, bool keep_dim) {
  check_defined("prod", x);
  const PolicyScope inside(nullptr);
  const int d = normal_dim_or_only("prod", dim, x.ndim());
  if (x.ndim() == 0) return for_products(x);
  const Tensor y = in_dtype_of(product_along(for_products(x), d), x);
  return keep_dim ? y : squeeze(y, d);
}

Tensor prod(const Tensor& x) {
  check_defined("prod", x);
  return prod(flatten(x), 0);
}

// Doubles the length of the multiplied runs in each round.
Tensor cumprod(const Tensor& x, int64_t dim) {
  check_defined("cumprod", x);
  const PolicyScope inside(nullptr);
  const int d = normal_dim_or_only("cumprod", dim, x.ndim());
  if (x.ndim() == 0) return for_products(x);
  Tensor y = for_products(x);
  const int64_t n = y.size(d);
  for (int64_t run = 1; run < n; run *= 2) {
    Shape shape = y.shape();
    shape[d] = run;
    y = y * cat({ones(shape, {y.dtype(), y.device()}), narrow(y, d, 0, n - run)}, d);
  }
  return in_dtype_of(y, x);
}

Tensor nansum(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims) {
  check_defined("nansum", x);
  const PolicyScope inside(nullptr);
  if (!is_floating(x.dtype())) return sum(x, dims, keep_dims);
  return sum(where(isnan(x.detach()), zeros({}, {x.dtype(), x.device()}), x), dims, keep_dims);
}

Tensor nanmean(const Tensor& x, const std::vector<int64_t>& dims, bool keep_dims) {
  check_defined("nanmean", x);
  check(is_floating(x.dtype()), "nanmean: want a floating tensor; got {}", name_of(x.dtype()));
  const PolicyScope inside(nullptr);
  const Tensor wide = for_products(x);
  const Tensor count = sum(logical_not(isnan(wide.detach())), dims, keep_dims);
  return in_dtype_of(nansum(wide, dims, keep_dims) / count, x);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim) {
  check_defined("diff", x);
  check(n >= 0, "diff: the order is negative; got {}", n);
  const PolicyScope inside(nullptr);
  const int d = normal_dim("diff", dim, x.ndim());
  Tensor y = x;
  for (int64_t i = 0; i < n && y.size(d) > 0; ++i) {
    const int64_t size = y.size(d) - 1;
    const Tensor after = narrow(y, d, 1, size), before = narrow(y, d, 0, size);
    y = y.dtype() == DType::boolean ? not_equal(after, before) : after - before;
  }
  return y;
}

std::pair<Tensor, Tensor> kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keep_dim) {
  check_defined("kthvalue", x);
  const int d = normal_dim("kthvalue", dim, x.ndim());
  check(k >= 1 && k <= x.size(d), "kthvalue: k is out of range; got {}, want 1 to {}", k,
        x.size(d));
  const PolicyScope inside(nullptr);
  return slice_of_order(topk(x, k, d, false), d, k - 1, keep_dim);
}

std::pair<Tensor, Tensor> median(const Tensor& x, int64_t dim, bool keep_dim) {
  check_defined("median", x);
  const int d = normal_dim("median", dim, x.ndim());
  check(x.size(d) > 0, "median: no elements to reduce; got shape {}", x.shape());
  auto [values, index] = kthvalue(x, (x.size(d) + 1) / 2, d, keep_dim);
  return {nan_where_any(values, x, d, keep_dim), index};
}

Tensor median(const Tensor& x) {
  check_defined("median", x);
  return median(flatten(x), 0).first;
}

Tensor quantile(const Tensor& given, double q, std::optional<int64_t> dim, bool keep_dim) {
  check_defined("quantile", given);
  check(q >= 0 && q <= 1, "quantile: q is out of range; got {}, want 0 to 1", q);
  check(given.dtype() == DType::f32 || given.dtype() == DType::f64,
        "quantile: want an f32 or f64 tensor; got {}", name_of(given.dtype()));
  const PolicyScope inside(nullptr);
  const Tensor x = dim ? given : flatten(given);
  const int d = dim ? normal_dim("quantile", *dim, x.ndim()) : 0;
  const int64_t n = x.size(d);
  check(n > 0, "quantile: no elements to reduce; got shape {}", x.shape());
  const auto sorted = sort(x, d);
  const double place = q * static_cast<double>(n - 1), below = std::floor(place);
  const auto at = static_cast<int64_t>(below);
  const Tensor low = slice_of_order(sorted, d, at, keep_dim).first;
  const Tensor high = slice_of_order(sorted, d, std::min(at + 1, n - 1), keep_dim).first;
  return nan_where_any(lerp(low, high, place - below), x, d, keep_dim);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_defined("outer", a);
  check_defined("outer", b);
  check(a.ndim() == 1 && b.ndim() == 1, "outer: want two vectors; got {} and {}", a.shape(),
        b.shape());
  return unsqueeze(a, 1) * b;
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t dim) {
  check_defined("cross", a);
  check_defined("cross", b);
  const int d = normal_dim("cross", dim, a.ndim());
  check(b.ndim() == a.ndim() && a.size(d) == 3 && b.size(d) == 3,
        "cross: want size 3 in dimension {}; got {} and {}", d, a.shape(), b.shape());
  const PolicyScope inside(nullptr);
  return roll(a, {-1}, {d}) * roll(b, {-2}, {d}) - roll(a, {-2}, {d}) * roll(b, {-1}, {d});
}

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  check_defined("cdist", a);
  check_defined("cdist", b);
  check(a.ndim() >= 2 && b.ndim() >= 2 && a.size(-1) == b.size(-1),
        "cdist: want rows of one length; got {} and {}", a.shape(), b.shape());
  const PolicyScope inside(nullptr);
  return norm(unsqueeze(a, -2) - unsqueeze(b, -3), {-1}, false, p);
}

}  // namespace booster
