// CUDA's kernels against the CPU's, on the same numbers. Without a CUDA device the comparisons are
// reported as skipped.
#include "kernels/system/error.h"
#include "kernels/system/memory.h"
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

constexpr Device gpu = {DeviceType::cuda, 0};

// Marks a comparison: skipped if there is no GPU.
auto on_gpu() { return doctest::skip(cuda_device_count() == 0); }

// A copy of n bytes of the host in the GPU's memory.
class GpuCopy {
 public:
  GpuCopy(const void* host, size_t bytes) : data_(device_allocate(gpu, bytes)) {
    device_copy(data_, gpu, host, {}, bytes);
  }
  explicit GpuCopy(const Plain& tensor) : GpuCopy(tensor.bytes->data(), tensor.bytes->size()) {}
  ~GpuCopy() { device_free(gpu, data_); }
  GpuCopy(const GpuCopy&) = delete;
  void* data() const { return data_; }
  View view_like(const Plain& tensor) const {
    View view = tensor.view();
    view.data = data_;
    view.device = gpu;
    return view;
  }
  void fetch(void* host, size_t bytes) const { device_copy(host, {}, data_, gpu, bytes); }
  Plain fetch(const Plain& like) const {
    Plain tensor = like;
    fetch(tensor.bytes->data(), tensor.bytes->size());
    return tensor;
  }

 private:
  void* data_;
};

// Allows for another order of additions, for fused multiply-adds and for the GPU's own sinf, powf.
double allowed(DType dtype, double want) {
  const double size = std::abs(want) + 0.1;
  switch (dtype) {
    case DType::f32: return size * 4e-6;
    case DType::f64: return size * 1e-13;
    case DType::f16: return size * 0x1p-10;
    case DType::bf16: return size * 0x1p-7;
    default: return 0;
  }
}

void check_same(const Plain& got, const Plain& want) {
  const Numbers a = numbers(got), b = numbers(want);
  int wrong = 0;
  for (size_t i = 0; i < a.size() && wrong < 3; ++i) {
    if (close(a[i], b[i], allowed(want.dtype, b[i]))) continue;
    FAIL_CHECK("element " << i << " of " << name_of(want.dtype) << ": got " << a[i] << ", want "
                          << b[i] << " as on the CPU");
    ++wrong;
  }
}

// Runs kernel(table, output, inputs) on both devices; the outputs must agree.
template <class Kernel>
void compare(const Plain& output, const std::vector<Plain>& inputs, Kernel&& kernel) {
  std::vector<View> here, there;
  std::vector<std::unique_ptr<GpuCopy>> copies;
  for (const Plain& input : inputs) {
    here.push_back(input.view());
    copies.push_back(std::make_unique<GpuCopy>(input));
    there.push_back(copies.back()->view_like(input));
  }
  const GpuCopy result(output);
  kernel(on(gpu), result.view_like(output), there);
  const Plain want = output;
  kernel(on({}), want.view(), here);
  check_same(result.fetch(output), want);
}

// Dense, transposed and broadcast operands; sizes that are no multiple of a block of threads.
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

struct Parameters {
  Parameters(DType value, DType grad, DType copy) {
    uint32_t seed = 1;
    for (const int64_t size :
         {int64_t(1), int64_t(0), int64_t(1023), int64_t(16385), int64_t(40000)}) {
      const DType state = wide(value);
      tensors.push_back({random(value, {size}, seed++), random(grad, {size}, seed++),
                         test::zeros(state, {size}), test::zeros(state, {size}),
                         test::zeros(copy, {size})});
    }
  }
  // Slots that point to `address(tensor, part)`.
  template <class Address>
  std::vector<OptimizerSlot> slots(const int64_t* taken, bool first, Address&& address) const {
    std::vector<OptimizerSlot> slots;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& t = tensors[i];
      slots.push_back({address(i, 0), t[0].dtype, address(i, 1), t[1].dtype, address(i, 2),
                       address(i, 3), address(i, 4), t[4].dtype, t[0].shape[0], taken, first});
    }
    return slots;
  }
  std::vector<std::vector<Plain>> tensors;  // value, grad, state1, state2, copy of each parameter
};

OptimizerSlots multi(const std::vector<OptimizerSlot>& slots) {
  return {slots.data(), static_cast<int64_t>(slots.size())};
}

// Three steps by kernel(table, slots, control) on both devices; everything that they write agrees.
template <class Kernel>
void compare_steps(Kernel&& kernel) {
  struct DTypes {
    DType value, grad, copy;
  };
  for (const DTypes& dtypes :
       {DTypes{DType::f32, DType::bf16, DType::bf16}, DTypes{DType::f32, DType::f32, DType::f16},
        DTypes{DType::f64, DType::f64, DType::f16},
        DTypes{DType::bf16, DType::bf16, DType::bf16}}) {
    CAPTURE(std::string(name_of(dtypes.value)));
    const Parameters work(dtypes.value, dtypes.grad, dtypes.copy);
    std::vector<std::vector<std::unique_ptr<GpuCopy>>> copies;
    for (const auto& tensors : work.tensors) {
      copies.emplace_back();
      for (const Plain& t : tensors) copies.back().push_back(std::make_unique<GpuCopy>(t));
    }
    const float factors[] = {0, 0.5f, 0.3f};
    const GpuCopy there(factors, sizeof factors);
    const auto* device_factors = static_cast<const float*>(there.data());
    for (int64_t taken = 0; taken < 3; ++taken) {
      const GpuCopy taken_there(&taken, sizeof taken);
      const auto on_device =
          work.slots(static_cast<const int64_t*>(taken_there.data()), taken == 0,
                     [&](size_t i, int k) { return copies[i][k]->data(); });
      kernel(on(gpu), multi(on_device),
             StepControl{device_factors, device_factors + 1, device_factors + 2});
      const auto on_host =
          work.slots(&taken, taken == 0,
                     [&](size_t i, int k) { return work.tensors[i][k].bytes->data(); });
      kernel(on({}), multi(on_host), StepControl{factors, factors + 1, factors + 2});
    }
    for (size_t i = 0; i < copies.size(); ++i)
      for (size_t k = 0; k < copies[i].size(); ++k)
        check_same(copies[i][k]->fetch(work.tensors[i][k]), work.tensors[i][k]);
  }
}

}  // namespace

TEST_CASE("comparisons with a GPU add themselves where there is one") {
  if (cuda_device_count() == 0)
    MESSAGE("skipped: this build or machine has no CUDA device to compare the CPU's kernels with");
  CHECK(cuda_device_count() >= 0);
}

TEST_CASE("without a CUDA device its kernels and memory are an error that says so" *
          doctest::skip(cuda_device_count() > 0)) {
  CHECK_THROWS_WITH_AS(device_allocate(gpu, 16), doctest::Contains("CUDA"), Error);
  CHECK_THROWS_WITH_AS(device_allocate(gpu, 16), doctest::Contains("got cuda:0, want cpu"), Error);
}

TEST_CASE("GPU: a kernel that is not there yet is an error that names it" * on_gpu()) {
  CHECK_THROWS_WITH_AS(on(gpu).softmax({}, {}, false), doctest::Contains("softmax"), Error);
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

TEST_CASE("GPU: the same seed draws the same numbers as on the CPU" * on_gpu()) {
  for (const DType dtype : floating_dtypes)
    for (const int64_t size : {1, 2, 6, 511, 1001}) {
      const RandomPosition position = {42, 1000};
      const Plain y = test::zeros(dtype, {size});
      compare(y, {}, [=](const Table& table, View out, const std::vector<View>&) {
        table.uniform(out, -1, 2, position);
      });
      compare(y, {}, [=](const Table& table, View out, const std::vector<View>&) {
        table.normal(out, 0.5, 2, position);
      });
      compare(y, {random(dtype, {size}, 5)},
              [=](const Table& table, View out, const std::vector<View>& in) {
                table.dropout(out, in[0], 0.3, position);
              });
    }
}

TEST_CASE("GPU: SGD, AdamW and LAMB step as on the CPU" * on_gpu()) {
  // Gives body(its numbers where the table's kernels read them).
  const auto with_numbers = [](const Table& table, StepNumbers numbers, auto&& body) {
    if (&table == &on({})) return body(&numbers);
    const StepNumbers none = {};
    const GpuCopy there(&none, sizeof none);
    auto* at = static_cast<StepNumbers*>(there.data());
    table.write_step_numbers(at, numbers);
    body(at);
  };
  for (const double momentum : {0.0, 0.9})
    compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
      const SgdStep sgd = {0.1, momentum, 0.1, 0.01, momentum > 0, false};
      with_numbers(table, {.sgd = sgd}, [&](const StepNumbers* numbers) {
        table.sgd_step(slots, &numbers->sgd, momentum > 0, control);
      });
    });
  for (const bool decoupled : {false, true})
    compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
      const AdamStep adam = {0.01, 0.9, 0.99, 1e-8, 0.05, decoupled, true};
      with_numbers(table, {.adam = adam}, [&](const StepNumbers* numbers) {
        table.adam_step(slots, &numbers->adam, control);
      });
    });
  compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
    const LambStep lamb = {0.01, 0.9, 0.99, 1e-6, 0.05, true, false, false, true, false, 0};
    std::vector<double> squares(2 * static_cast<size_t>(slots.count));
    const GpuCopy squares_there(squares.data(), squares.size() * sizeof(double));
    double* sums = &table == &on({}) ? squares.data() : static_cast<double*>(squares_there.data());
    with_numbers(table, {.lamb = lamb}, [&](const StepNumbers* numbers) {
      table.lamb_moments(slots, &numbers->lamb, nullptr, sums, control);
      table.lamb_apply(slots, &numbers->lamb, nullptr, sums, control);
    });
  });
}

TEST_CASE("GPU: 8-bit floats are cast and decoded as on the CPU" * on_gpu()) {
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Plain x = random(dtype, {40'001}, 1), codes = random(DType::u8, {40'001}, 2);
      compare(test::zeros(DType::u8, x.shape), {x}, [&](auto& table, const View& out, auto& in) {
        table.fp8_quantize(out, in[0], {format}, nullptr, nullptr, nullptr);
      });
      compare(test::zeros(dtype, x.shape), {codes}, [&](auto& table, const View& out, auto& in) {
        table.fp8_decode(out, in[0], format);
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
      float scalars[2] = {0, 0.25f};  // found_inf, factor
      double norms[4] = {};
      const GpuCopy scalars_there(scalars, sizeof scalars), norms_there(norms, sizeof norms);
      const auto run = [](const Table& table, const std::vector<TensorSpan>& spans, float* scalar,
                          double* norm) {
        const MultiTensor all = {spans.data(), static_cast<int64_t>(spans.size())};
        int next = 0;
        for (const double power : {1.0, 2.0, 3.0, double(INFINITY)})
          table.multi_norm(all, power, norm + next++);
        table.multi_check(all, scalar + 1, scalar);
        table.multi_unscale(all, scalar + 1, scalar);
        table.multi_scale(all, scalar + 1);
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
