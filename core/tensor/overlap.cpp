#include "core/tensor/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace booster {
namespace {

struct Step {
  int64_t stride, size;
};

// Returns the dimensions with more than one element, shortest step first.
std::vector<Step> steps_of(const Tensor& x) {
  std::vector<Step> steps;
  for (int i = 0; i < x.ndim(); ++i)
    if (x.shape()[i] > 1) steps.push_back({std::abs(x.strides()[i]), x.shape()[i]});
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.stride < b.stride; });
  return steps;
}

// Returns true if each step exceeds the reach of the shorter steps, so that no two elements share
// an address.
bool are_nested(const std::vector<Step>& steps) {
  int64_t reached = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reached) return false;
    reached += stride * (size - 1);
  }
  return true;
}

// Returns true if two elements share an address. Compares all addresses, for the rare views whose
// steps are not nested.
bool do_elements_meet(const std::vector<Step>& steps) {
  std::vector<int64_t> places = {0};
  for (const auto& [stride, size] : steps) {
    const size_t before = places.size();
    for (int64_t i = 1; i < size; ++i)
      for (size_t j = 0; j < before; ++j) places.push_back(places[j] + i * stride);
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

// Returns the first byte of x in its storage, and the end of the last one.
std::pair<int64_t, int64_t> bytes_of(const Tensor& x) {
  int64_t first = x.body()->offset, last = first;
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t reach = x.strides()[i] * (x.shape()[i] - 1);
    (reach < 0 ? first : last) += reach;
  }
  const int64_t size = size_of(x.dtype());
  return {first * size, (last + 1) * size};
}

bool is_same_view(const Tensor& a, const Tensor& b) {
  if (a.body()->offset != b.body()->offset || a.dtype() != b.dtype() || a.shape() != b.shape())
    return false;
  for (int i = 0; i < a.ndim(); ++i)
    if (a.shape()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
}

}  // namespace

void check_places_apart(const char* op, const Tensor& x) {
  if (x.is_contiguous() || x.numel() == 0) return;
  const std::vector<Step> steps = steps_of(x);
  if (are_nested(steps)) return;
  if (steps.front().stride == 0 || do_elements_meet(steps))
    fail(
        "{}: several elements of the written tensor share one address; got shape {} with strides "
        "{}, want a clone()",
        op, x.shape(), x.strides());
}

bool is_source_written(const Tensor& target, const Tensor& source) {
  if (!target.shares_storage(source) || target.numel() == 0 || is_same_view(target, source))
    return false;
  const auto [target_begin, target_end] = bytes_of(target);
  const auto [source_begin, source_end] = bytes_of(source);
  return target_begin < source_end && source_begin < target_end;
}

}  // namespace booster
