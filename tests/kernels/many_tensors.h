// Shared by the tests of kernels over many tensors: lists of tensors, every CPU variant with one
// and two threads, and tolerances.
#pragma once

#include "platform/threads.h"
#include "tests/kernels/everywhere.h"

#include <limits>

namespace booster::kernels::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Tensors of awkward sizes around the kernels' chunks (16384) and runs (1024), one of them empty.
inline const std::vector<int64_t> sizes = {1, 0, 1023, 1025, 7, 16384, 16385, 40000};

inline std::vector<Plain> random_tensors(DType dtype, uint32_t seed) {
  std::vector<Plain> tensors;
  for (int64_t size : sizes) tensors.push_back(random(dtype, {size}, seed++));
  return tensors;
}
inline std::vector<Plain> zero_tensors(DType dtype) {
  std::vector<Plain> tensors;
  for (int64_t size : sizes) tensors.push_back(test::zeros(dtype, {size}));
  return tensors;
}

inline std::vector<TensorSpan> spans_of(const std::vector<Plain>& tensors) {
  std::vector<TensorSpan> spans;
  for (const Plain& t : tensors) spans.push_back({t.bytes->data(), t.shape[0], t.dtype});
  return spans;
}
inline MultiTensor multi(const std::vector<TensorSpan>& spans) {
  return {spans.data(), static_cast<int64_t>(spans.size())};
}
inline Numbers joined(const std::vector<Plain>& tensors) {
  Numbers all;
  for (const Plain& t : tensors)
    for (double x : numbers(t)) all.push_back(x);
  return all;
}

// Calls body(table) on every variant with 1 and 2 threads.
template <class Body>
void everywhere(Body&& body) {
  const std::string chosen = cpu_variant();
  const int threads = thread_count();
  for (const std::string& variant : cpu_variants()) {
    CAPTURE(variant);
    force_cpu_variant(variant);
    for (int count : {1, 2}) {
      set_thread_count(count);
      body(on({}));
    }
  }
  set_thread_count(threads);
  force_cpu_variant(chosen);
}

inline void check_close(const Numbers& got, const Numbers& want, double relative,
                        double absolute = 0) {
  REQUIRE(got.size() == want.size());
  int wrong = 0;
  for (size_t i = 0; i < got.size() && wrong < 3; ++i) {
    if (close(got[i], want[i], std::abs(want[i]) * relative + absolute)) continue;
    FAIL_CHECK("element " << i << ": got " << got[i] << ", want " << want[i]);
    ++wrong;
  }
}

inline double rounding(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-50;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0x1p-20;
  }
}

}  // namespace booster::kernels::test
