// Functions that write, count or search by position, composed of other functions or run on the
// host.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/ops/defined.h"

#include <algorithm>

namespace booster {
namespace {

// Returns a vector of positions along dimension d in the shape of `slices`, for scatter.
Tensor spread_places(const char* op, const Tensor& x, int d, const Tensor& index,
                     const Tensor& slices) {
  check_defined(op, index);
  check_defined(op, slices);
  Shape want = x.shape();
  want[d] = index.numel();
  check(index.ndim() <= 1, "{}: index must be a vector; got {}", op, index.shape());
  check(slices.shape() == want, "{}: slices have the wrong shape; got {}, want {}", op,
        slices.shape(), want);
  Shape along;
  for (int i = 0; i < x.ndim(); ++i) along.push_back(i == d ? index.numel() : 1);
  return untracked::expand(untracked::reshape(index, along), want);
}

// Calls f with a value of the host type that holds x's elements exactly.
template <class F>
auto with_host_type(const Tensor& x, F&& f) {
  return is_floating(x.dtype()) ? f(double{}) : f(int64_t{});
}

}  // namespace

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& terms,
                 double factor) {
  check_defined("index_add", x);
  const int d = normal_dim("index_add", dim, x.ndim());
  const Tensor places = spread_places("index_add", x, d, index, terms);
  return scatter_add(x, d, places, factor == 1 ? terms : terms * factor);
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& slices) {
  check_defined("index_copy", x);
  const int d = normal_dim("index_copy", dim, x.ndim());
  return scatter(x, d, spread_places("index_copy", x, d, index, slices), slices);
}

Tensor take(const Tensor& x, const Tensor& index) {
  check_defined("take", x);
  check_defined("take", index);
  return flatten(x)[index];
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t min_length) {
  check_defined("bincount", x);
  check(x.ndim() == 1 && !is_floating(x.dtype()), "bincount: want a vector of integers; got {} {}",
        name_of(x.dtype()), x.shape());
  check(!weights.defined() || weights.shape() == x.shape(),
        "bincount: the weights have the wrong shape; got {}, want {}",
        weights.defined() ? weights.shape() : Shape{}, x.shape());
  const auto bins = x.to_vector<int64_t>();
  int64_t length = std::max<int64_t>(min_length, 0);
  for (size_t i = 0; i < bins.size(); ++i) {
    check(bins[i] >= 0, "bincount: a number is negative; got {} at position {}", bins[i], i);
    length = std::max(length, bins[i] + 1);
  }
  if (weights.defined()) {
    std::vector<double> sums(static_cast<size_t>(length));
    const auto terms = weights.to_vector<double>();
    for (size_t i = 0; i < bins.size(); ++i) sums[static_cast<size_t>(bins[i])] += terms[i];
    const DType dtype = weights.dtype() == DType::f32 ? DType::f32 : DType::f64;
    return untracked::cast(from_vector(sums, {length}), dtype).to(x.device());
  }
  std::vector<int64_t> counts(static_cast<size_t>(length));
  for (const int64_t bin : bins) ++counts[static_cast<size_t>(bin)];
  return from_vector(counts, {length}).to(x.device());
}

Unique unique(const Tensor& x) {
  check_defined("unique", x);
  return with_host_type(x, [&](auto type) {
    using T = decltype(type);
    const std::vector<T> all = x.to_vector<T>();
    std::vector<T> values = all;
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::vector<int64_t> inverse(all.size()), counts(values.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto at = std::ranges::lower_bound(values, all[i]) - values.begin();
      inverse[i] = at;
      ++counts[static_cast<size_t>(at)];
    }
    const auto n = static_cast<int64_t>(values.size());
    return Unique{untracked::cast(from_vector(values, {n}), x.dtype()).to(x.device()),
                  from_vector(inverse, x.shape()).to(x.device()),
                  from_vector(counts, {n}).to(x.device())};
  });
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  check_defined("searchsorted", sorted);
  check_defined("searchsorted", values);
  bool fits = sorted.ndim() == 1 || (sorted.ndim() == values.ndim() && sorted.ndim() > 0);
  for (int i = 0; fits && sorted.ndim() > 1 && i < sorted.ndim() - 1; ++i)
    fits = sorted.size(i) == values.size(i);
  check(fits,
        "searchsorted: shapes do not match; got sorted {} and values {}, want one row or the same "
        "leading sizes",
        sorted.shape(), values.shape());
  const bool whole = !is_floating(sorted.dtype()) && !is_floating(values.dtype());
  return with_host_type(whole ? sorted : zeros({}), [&](auto type) {
    using T = decltype(type);
    const std::vector<T> rows = sorted.to_vector<T>(), wanted = values.to_vector<T>();
    const auto n = static_cast<size_t>(sorted.size(-1));
    const size_t each = sorted.ndim() == 1 ? 0 : static_cast<size_t>(values.size(-1));
    std::vector<int64_t> places(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(each ? i / each * n : 0);
      const auto end = begin + static_cast<std::ptrdiff_t>(n);
      places[i] = (right ? std::upper_bound(begin, end, wanted[i])
                         : std::lower_bound(begin, end, wanted[i])) -
                  begin;
    }
    return from_vector(places, values.shape()).to(values.device());
  });
}

Tensor bucketize(const Tensor& values, const Tensor& bounds, bool right) {
  check_defined("bucketize", bounds);
  check(bounds.ndim() == 1, "bucketize: bounds must be a vector; got {}", bounds.shape());
  return searchsorted(bounds, values, right);
}

}  // namespace booster
