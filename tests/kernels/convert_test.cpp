// Conversions between dtypes: every 16-bit pattern, and floats of all magnitudes, give the bits
// that IEEE 754 requires (to nearest, ties to even) on every CPU variant.
#include "tests/kernels/everywhere.h"

#include <bit>
#include <random>

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;

namespace {

template <class T>
T* data(const Plain& tensor) {
  return reinterpret_cast<T*>(tensor.bytes->data());
}

// Runs copy on every CPU variant, then calls same(i) for each element.
void copy_everywhere(const Plain& out, const Plain& in, const std::function<bool(int64_t)>& same) {
  const std::string chosen = kernels::cpu_variant();
  for (const std::string& variant : kernels::cpu_variants()) {
    CAPTURE(variant);
    kernels::force_cpu_variant(variant);
    out.fill_bytes(0x55);
    kernels::on({}).copy(out.view(), in.view());
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < in.shape[0]; ++i)
      if (!same(i) && wrong++ == 0) first = i;
    CAPTURE(first);
    CHECK(wrong == 0);
  }
  kernels::force_cpu_variant(chosen);
}

Plain all_16_bit_patterns(DType dtype) {
  Plain tensor = zeros(dtype, {65536});
  for (int64_t i = 0; i < 65536; ++i) data<uint16_t>(tensor)[i] = static_cast<uint16_t>(i);
  return tensor;
}

// Returns random bits, random bits in the range where f16 results are subnormal or round to
// subnormals, and all ties of both formats near 1.
Plain floats_of_all_kinds() {
  constexpr int64_t n = 300001;
  Plain tensor = zeros(DType::f32, {n});
  std::mt19937 generator(5);
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<uint32_t>(generator());
    uint32_t chosen = bits;
    if (i % 4 == 1)
      chosen = (bits & 0x807FFFFF) | (0x30000000 + (bits >> 9 & 0x0FFFFFFF) % 0x0A000000);
    if (i % 4 == 2) chosen = (bits & 0x8FFFF000) | 0x30000000;
    if (i % 16 == 3) chosen = bits & 0x807FFFFF;
    if (i % 16 == 7) chosen = bits | 0x7F800000;
    data<uint32_t>(tensor)[i] = chosen;
  }
  return tensor;
}

}  // namespace

TEST_CASE("every f16 and bf16 number becomes the same f32 number and comes back") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    CAPTURE(name_of(dtype));
    const Plain narrow = all_16_bit_patterns(dtype), wide = zeros(DType::f32, {65536});
    const Plain back = zeros(dtype, {65536});
    copy_everywhere(wide, narrow, [&](int64_t i) {
      const double want = narrow.at({i}), got = wide.at({i});
      return std::isnan(want) ? std::isnan(got)
                              : want == got && std::signbit(want) == std::signbit(got);
    });
    copy_everywhere(back, wide, [&](int64_t i) {
      return std::isnan(narrow.at({i})) ? std::isnan(back.at({i}))
                                        : data<uint16_t>(back)[i] == data<uint16_t>(narrow)[i];
    });
  }
}

TEST_CASE("f32 rounds to f16 and bf16 to nearest even: subnormals, ties, overflow and nan") {
  const Plain wide = floats_of_all_kinds();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    CAPTURE(name_of(dtype));
    const Plain narrow = zeros(dtype, wide.shape);
    copy_everywhere(narrow, wide, [&](int64_t i) {
      const double x = wide.at({i});
      if (std::isnan(x)) return std::isnan(narrow.at({i}));
      const uint16_t want = dtype == DType::f16 ? double_to_half(x) : double_to_bf16(x);
      return data<uint16_t>(narrow)[i] == want;
    });
  }
}

TEST_CASE("a nan keeps its sign and leading payload, and becomes quiet") {
  const Plain wide = zeros(DType::f32, {40});
  for (int64_t i = 0; i < 40; ++i)
    data<uint32_t>(wide)[i] = (i % 2 ? 0xFF800000 : 0x7F800000) | (i % 3 ? 0x12345 * (i + 1) : 1);
  const Plain bf16 = zeros(DType::bf16, {40}), f16 = zeros(DType::f16, {40});
  copy_everywhere(bf16, wide, [&](int64_t i) {
    return data<uint16_t>(bf16)[i] == (data<uint32_t>(wide)[i] >> 16 | 0x40);
  });
  copy_everywhere(f16, wide, [&](int64_t i) {
    const uint32_t bits = data<uint32_t>(wide)[i];
    return data<uint16_t>(f16)[i] == ((bits >> 16 & 0x8000) | 0x7E00 | (bits >> 13 & 0x3FF));
  });
}
