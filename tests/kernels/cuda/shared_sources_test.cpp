// The kernels whose sources are shared with the CPU, on a GPU.
#include "platform/error.h"
#include "tests/kernels/cuda/compare.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

// Dense, transposed and broadcast operands; sizes that are not a multiple of a block of threads.
struct Layout {
  Index shape, strides;
};
const Layout layouts[] = {{{1000}, {1}},      {{37, 29}, {1, 37}},
                          {{5, 300}, {0, 1}}, {{2, 3, 4}, {1, 0, 2}},
                          {{}, {}},           {{0}, {1}}};

template <class Body>
void for_each_layout(Body&& body) {
  for (const Layout& layout : layouts)
    for (const DType dtype : floating_dtypes) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(layout.shape.size());
      const Plain other = random(dtype, layout.shape, layout.strides, 7);
      body(test::zeros(dtype, layout.shape), random(dtype, layout.shape, 8), other);
    }
}

void check_copy(const Plain& from, DType to) {
  const Plain want = test::zeros(to, from.shape), got = unwritten(to, from.shape);
  const GpuCopies there({from, got});
  on(gpu).copy(there.views[1], there.views[0]);
  on({}).copy(want.view(), from.view());
  CHECK(*there.fetch(1, got).bytes == *want.bytes);
}

}  // namespace

TEST_CASE("comparisons with a GPU add themselves where there is one") {
  if (cuda_device_count() == 0)
    MESSAGE("skipped: this build or machine has no CUDA device to compare the CPU's kernels with");
  CHECK(cuda_device_count() >= 0);
}

// All 16-bit values except nans, whose bits may differ. Also f32 values halfway between two 16-bit
// ones, their neighbours, and values that overflow.
TEST_CASE("GPU: numbers become 16 bits and come back with the CPU's bits" * on_gpu()) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    CAPTURE(std::string(name_of(dtype)));
    const int infinity = dtype == DType::f16 ? 0x7C00 : 0x7F80;
    const Plain narrow = test::zeros(dtype, {2, infinity + 1});
    for (int i = 0; i <= infinity; ++i)
      for (const int sign : {0, 1}) {
        const auto bits = static_cast<uint16_t>(i | sign << 15);
        std::memcpy(narrow.address({sign, i}), &bits, sizeof bits);
      }
    check_copy(narrow, DType::f32);
    const Plain wide = test::zeros(DType::f32, {2, infinity + 1, 3});
    for_each_index(narrow.shape, [&](const Index& at) {
      const double here = narrow.at(at);
      const double below = at[1] > 0 ? narrow.at({at[0], at[1] - 1}) : here;
      const double step = at[1] > 1 ? below - narrow.at({at[0], at[1] - 2}) : 0;
      const auto middle =
          static_cast<float>(std::isfinite(here) ? (below + here) / 2 : below + step / 2);
      wide.set({at[0], at[1], 0}, std::nextafterf(middle, -INFINITY));
      wide.set({at[0], at[1], 1}, middle);
      wide.set({at[0], at[1], 2}, std::nextafterf(middle, INFINITY));
    });
    check_copy(wide, dtype);
  }
}

TEST_CASE("without a CUDA device its kernels and memory are an error that says so" *
          doctest::skip(cuda_device_count() > 0)) {
  CHECK_THROWS_WITH_AS(device_allocate(gpu, 16), doctest::Contains("CUDA"), Error);
  CHECK_THROWS_WITH_AS(device_allocate(gpu, 16), doctest::Contains("got cuda:0, want cpu"), Error);
}

TEST_CASE("GPU: an operand that lies on the CPU is an error" * on_gpu()) {
  const Plain x = random(DType::f32, {8}, 1);
  const GpuCopy there(x);
  const View y = there.view_like(x);
  CHECK_THROWS_WITH_AS(on(gpu).binary(BinaryOp::add, y, y, x.view()),
                       doctest::Contains("different devices"), Error);
}

TEST_CASE("GPU: every elementwise op and derivative agrees with the CPU" * on_gpu()) {
  for_each_layout([](const Plain& y, const Plain& x, const Plain& g) {
#define UNARY(name, ...)                                                                \
  compare(y, {g}, [](const Table& table, View out, const std::vector<View>& in) {       \
    table.unary(UnaryOp::name, out, in[0]);                                             \
  });                                                                                   \
  compare(y, {g, x, x}, [](const Table& table, View out, const std::vector<View>& in) { \
    table.unary_backward(UnaryOp::name, out, in[0], in[1], in[2]);                      \
  });
#define BINARY(name, ...)                                                                     \
  compare(y, {x, g}, [](const Table& table, View out, const std::vector<View>& in) {          \
    table.binary(BinaryOp::name, out, in[0], in[1]);                                          \
  });                                                                                         \
  for (const int which : {0, 1})                                                              \
    compare(y, {g, x, g, x}, [=](const Table& table, View out, const std::vector<View>& in) { \
      table.binary_backward(BinaryOp::name, which, out, in[0], in[1], in[2], in[3]);          \
    });                                                                                       \
  for (const bool first : {false, true})                                                      \
    compare(y, {x}, [=](const Table& table, View out, const std::vector<View>& in) {          \
      table.binary_scalar(BinaryOp::name, out, in[0], 1.75, first);                           \
    });
#define COMPARE(name, ...)                                                \
  compare(test::zeros(DType::boolean, y.shape), {x, g},                   \
          [](const Table& table, View out, const std::vector<View>& in) { \
            table.compare(CompareOp::name, out, in[0], in[1]);            \
          });
#include "kernels/elementwise.def"
  });
}

TEST_CASE("GPU: integers add, multiply, divide and compare exactly" * on_gpu()) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u8}) {
    const Plain y = test::zeros(dtype, {777}), a = random(dtype, {777}, 1),
                b = random(dtype, {777}, 2);
    for (const BinaryOp op : {BinaryOp::add, BinaryOp::mul, BinaryOp::div, BinaryOp::maximum})
      compare(y, {a, b}, [=](const Table& table, View out, const std::vector<View>& in) {
        table.binary(op, out, in[0], in[1]);
        table.binary_scalar(op, out, out, 3, true);
      });
  }
}

TEST_CASE("GPU: copies convert every dtype to every other as the CPU does" * on_gpu()) {
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                          DType::i32, DType::i64, DType::u8,  DType::boolean};
  for (const DType from : dtypes)
    for (const DType to : dtypes) {
      Plain x = random(from, {40, 31}, {1, 40}, 3);
      for_each_index(x.shape, [&](const Index& at) {
        x.set(at, from == DType::boolean ? at[0] % 2 : std::abs(x.at(at)) * 3);
      });
      compare(test::zeros(to, x.shape), {x},
              [](const Table& table, View out, const std::vector<View>& in) {
                table.copy(out, in[0]);
              });
    }
}

TEST_CASE("GPU: fill, where and accumulate agree with the CPU" * on_gpu()) {
  for_each_layout([](const Plain& y, const Plain& x, const Plain& g) {
    compare(y, {x, g}, [](const Table& table, View out, const std::vector<View>& in) {
      table.fill(out, 0.7);
      table.accumulate(out, in[0]);
      table.where(out, out, in[1], in[0]);
    });
  });
}

TEST_CASE("GPU: the same seed draws the same numbers as on the CPU, wherever they begin" *
          on_gpu()) {
  for (const DType dtype : floating_dtypes)
    for (const int64_t size : {1, 2, 6, 511, 1001})
      for (const int64_t shift : {0, 1, 4}) {
        const RandomPosition position = {42, 1000};
        const Plain y = test::zeros(dtype, {shift + size + 1});
        const DType computed = dtype == DType::f64 ? DType::f32 : dtype;
        const auto part = [=](View view, int64_t first) {
          view.data = view.as<char>() + first * size_of(dtype);
          view.shape[0] = size;
          return view;
        };
        const auto compare_here = [&](const std::vector<Plain>& inputs, auto&& kernel) {
          compare(y, inputs, kernel, computed);
        };
        compare_here({}, [=](const Table& table, View out, const std::vector<View>&) {
          table.uniform(part(out, shift), -1, 2, position);
        });
        compare_here({}, [=](const Table& table, View out, const std::vector<View>&) {
          table.normal(part(out, shift), 0.5, 2, position);
        });
        compare_here({random(dtype, {size + 1}, 5)},
                     [=](const Table& table, View out, const std::vector<View>& in) {
                       table.dropout(part(out, shift), part(in[0], shift % 2), 0.3, position);
                     });
      }
}

TEST_CASE("GPU: unscale, norm, scale and clamp of many tensors agree with the CPU" * on_gpu()) {
  for (const DType dtype : floating_dtypes)
    for (const bool with_inf : {false, true}) {
      std::vector<Plain> tensors;
      for (const int64_t size : {1, 0, 1025, 16384, 40000})
        tensors.push_back(random(dtype, {size}, static_cast<uint32_t>(size)));
      if (with_inf) tensors[3].set({16383}, INFINITY);
      std::vector<TensorSpan> here, there;
      std::vector<std::unique_ptr<GpuCopy>> copies;
      for (const Plain& t : tensors) {
        copies.push_back(std::make_unique<GpuCopy>(t));
        here.push_back({t.bytes->data(), t.shape[0], dtype});
        there.push_back({copies.back()->data(), t.shape[0], dtype});
      }
      float scalars[2] = {0, 0.25f};         // found_inf, factor
      double norms[5] = {0, 0, 0, 0, 0.25};  // and a factor
      const GpuCopy scalars_there(scalars, sizeof scalars), norms_there(norms, sizeof norms);
      const auto run = [](const Table& table, const std::vector<TensorSpan>& spans, float* scalar,
                          double* norm) {
        const MultiTensor all = {spans.data(), static_cast<int64_t>(spans.size())};
        int next = 0;
        for (const double power : {1.0, 2.0, 3.0, double(INFINITY)})
          table.multi_norm(all, power, norm + next++);
        table.multi_check(all, scalar + 1, scalar);
        table.multi_unscale(all, scalar + 1, scalar);
        table.multi_scale(all, norm + 4);
        table.multi_clamp(all, 0.03);
      };
      run(on(gpu), there, static_cast<float*>(scalars_there.data()),
          static_cast<double*>(norms_there.data()));
      run(on({}), here, scalars, norms);
      float found = 2;
      scalars_there.fetch(&found, sizeof found);
      CHECK(found == (with_inf ? 1 : 0));
      CHECK(scalars[0] == found);
      double got[4];
      norms_there.fetch(got, sizeof got);
      for (int k = 0; k < 4; ++k) CHECK(close(got[k], norms[k], norms[k] * 1e-10));
      for (size_t i = 0; i < tensors.size(); ++i)
        check_same(copies[i]->fetch(tensors[i]), tensors[i]);
    }
}

TEST_CASE("GPU: drawn tensors are unscaled, scaled and clamped wherever they begin" * on_gpu()) {
  std::mt19937 draw(7);
  const int64_t around[] = {0, 8, 2048, 16384, 32768};
  for (const DType dtype : floating_dtypes)
    for (int round = 0; round < 12; ++round) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(round);
      const auto shift = static_cast<int64_t>(draw() % 9);
      const int64_t size = around[draw() % 5] + static_cast<int64_t>(draw() % 9);
      const auto seed = static_cast<uint32_t>(draw());
      const Plain x = random(dtype, {shift + size + 1}, seed);
      const bool with_inf = size > 0 && draw() % 2;
      if (with_inf) x.set({shift + static_cast<int64_t>(draw() % size)}, -INFINITY);
      x.set({shift + size}, NAN);  // past the end; must be ignored
      const GpuCopy there(x);
      const auto bytes = shift * size_of(dtype);
      const TensorSpan span = {static_cast<char*>(there.data()) + bytes, size, dtype};
      const TensorSpan same = {x.bytes->data() + bytes, size, dtype};
      const auto run = [](const Table& table, const TensorSpan& of, float* found, double* by) {
        table.multi_check({&of, 1}, found + 2, found);
        table.multi_unscale({&of, 1}, found + 2, found + 1);
        table.multi_scale({&of, 1}, by);
        table.multi_clamp({&of, 1}, 0.03);
      };
      float found[] = {0, 0, 0.25f};
      double factor = 2;
      const GpuCopy found_there(found, sizeof found), factor_there(&factor, sizeof factor);
      run(on(gpu), span, static_cast<float*>(found_there.data()),
          static_cast<double*>(factor_there.data()));
      run(on({}), same, found, &factor);
      CHECK(*there.fetch(x).bytes == *x.bytes);
      found_there.fetch(found, sizeof found);
      CHECK(found[0] == (with_inf ? 1 : 0));
      CHECK(found[1] == found[0]);
    }
}

TEST_CASE("GPU: a norm's bits do not depend on where its numbers begin" * on_gpu()) {
  std::mt19937 draw(8);
  for (const DType dtype : floating_dtypes)
    for (const int64_t size : {1, 7, 8, 1027, 16384, 33001})
      for (const double power : {1.0, 2.0, 3.0, double(INFINITY)}) {
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(size);
        CAPTURE(power);
        const Plain x = random(dtype, {size}, static_cast<uint32_t>(draw()));
        const TensorSpan here = {x.bytes->data(), size, dtype};
        double want = 0;
        on({}).multi_norm({&here, 1}, power, &want);
        double norm[2] = {};
        for (int i = 0; i < 2; ++i) {
          const auto shift = static_cast<size_t>(i * (1 + draw() % 7) * size_of(dtype));
          std::vector<char> moved(shift + x.bytes->size());
          std::memcpy(moved.data() + shift, x.bytes->data(), x.bytes->size());
          const GpuCopy there(moved.data(), moved.size()), result(norm, sizeof(double));
          const TensorSpan span = {static_cast<char*>(there.data()) + shift, size, dtype};
          on(gpu).multi_norm({&span, 1}, power, static_cast<double*>(result.data()));
          result.fetch(&norm[i], sizeof(double));
        }
        CHECK(close(norm[0], want, want * 1e-12));
        CHECK(norm[1] == norm[0]);
      }
}

TEST_CASE("GPU: the loss scale grows, backs off and refuses as on the CPU" * on_gpu()) {
  struct Memory {
    LossScaleState state;
    float scale = 0, inverse = 0, found = 0;
  };
  const LossScalePolicy policies[] = {
      {.growth_interval = 2},
      {.growth = 1.5, .backoff = 0.8, .growth_interval = 2, .f32_factors = true},
      {.growth_interval = 1, .hysteresis = 2, .refill = Refill::on_growth, .f64_scale = true}};
  for (const LossScalePolicy& policy : policies)
    for (const double start : {8.0, 0x1p-127, 0x1p127}) {
      Memory here{.state = {.scale = start}};
      const GpuCopy there(&here, sizeof here);
      auto* device = static_cast<Memory*>(there.data());
      for (const float found : {0.0f, 0.0f, NAN, 1.0f, 0.0f, 0.0f, 0.0f}) {
        here.found = found;
        device_copy(&device->found, gpu, &found, {}, sizeof found);
        on(gpu).update_loss_scale(&device->state, &device->scale, &device->inverse, &device->found,
                                  policy);
        on({}).update_loss_scale(&here.state, &here.scale, &here.inverse, &here.found, policy);
        Memory got;
        there.fetch(&got, sizeof got);
        CHECK(std::memcmp(&got, &here, sizeof got) == 0);
      }
    }
}
