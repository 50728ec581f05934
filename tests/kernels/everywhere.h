// Runs a kernel on every CPU variant that this processor supports, with one and two threads.
// Compares its outputs with a plain loop in double precision.
#pragma once

#include "kernels/catalogue.h"
#include "platform/threads.h"
#include "tests/kernels/plain_tensor.h"

#include <doctest/doctest.h>

#include <string>

namespace booster::kernels::test {

using Numbers = std::vector<double>;

inline const DType floating_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

// Returns the dtype of statistics, losses and parameter gradients for tensors of `dtype`.
inline DType wide(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

inline Plain zeros(DType dtype, const std::vector<int64_t>& shape) {
  Plain tensor(dtype, shape, contiguous_strides(shape));
  tensor.fill_bytes(0);
  return tensor;
}

inline Numbers numbers(const Plain& tensor) {
  Numbers values;
  for_each_index(tensor.shape, [&](const Index& index) { values.push_back(tensor.at(index)); });
  return values;
}

inline Plain from_numbers(DType dtype, const std::vector<int64_t>& shape, const Numbers& values) {
  Plain tensor = zeros(dtype, shape);
  size_t next = 0;
  for_each_index(shape, [&](const Index& index) { tensor.set(index, values[next++]); });
  return tensor;
}

// An output, its expected values, and the size of the terms in its sums.
struct Expected {
  const Plain& output;
  Numbers want;
  double magnitude = 1;
  double initial = 0;  // the output's values before the call; if nan, only that dtype's nan pattern
};

inline bool close(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || std::abs(got - want) <= tolerance;
}

inline void check_output(const Expected& expected) {
  const Numbers got = numbers(expected.output);
  REQUIRE(got.size() == expected.want.size());
  int wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = expected.want[i];
    const double allowed =
        tolerance(expected.output.dtype, want, expected.magnitude + std::abs(want));
    if (close(got[i], want, allowed) || ++wrong > 3) continue;
    FAIL_CHECK("element " << i << " of " << name_of(expected.output.dtype) << ": got " << got[i]
                          << ", want " << want << " within " << allowed);
  }
}

// run(table) must write the outputs, which hold `initial` before each call.
inline void check_everywhere(const std::function<void(const Table&)>& run,
                             const std::vector<Expected>& outputs) {
  const std::string chosen = cpu_variant();
  const int threads = thread_count();
  for (const std::string& variant : cpu_variants()) {
    CAPTURE(variant);
    force_cpu_variant(variant);
    std::vector<std::vector<char>> alone;
    for (const int count : {1, 2}) {
      set_thread_count(count);
      for (const Expected& expected : outputs)
        for_each_index(expected.output.shape,
                       [&](const Index& index) { expected.output.set(index, expected.initial); });
      run(on({}));
      for (size_t i = 0; i < outputs.size(); ++i) {
        const std::vector<char>& bytes = *outputs[i].output.bytes;
        if (count == 1) alone.push_back(bytes);
        CHECK_MESSAGE(bytes == alone[i], "the bits depend on the number of threads");
      }
    }
    for (const Expected& expected : outputs) check_output(expected);
  }
  set_thread_count(threads);
  force_cpu_variant(chosen);
}

}  // namespace booster::kernels::test
