#include "benchmarks/bound.h"

#include "benchmarks/timing.h"
#include "kernels/catalogue.h"
#include "kernels/cpu/library_plans.h"
#include "kernels/cpu/primitive.h"
#include "kernels/device/memory.h"

#include <algorithm>
#include <functional>

namespace booster::benchmarks {

namespace {

using kernels::cpu::Primitive;

// A matrix in the memory that tensors use, filled with small values without nan or inf.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, bool transposed, DType dtype)
      : view_{.data = kernels::device_allocate({}, rows * columns * size_of(dtype)),
              .dtype = dtype,
              .ndim = 2,
              .shape = {rows, columns},
              .strides = {transposed ? 1 : columns, transposed ? rows : 1}} {
    for (int64_t i = 0; i < rows * columns; ++i) {
      if (dtype == DType::bf16)
        view_.as<uint16_t>()[i] = static_cast<uint16_t>(0x3E80 + i % 61);
      else
        view_.as<float>()[i] = 0.25f + static_cast<float>(i % 61) / 512;
    }
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { kernels::device_free({}, view_.data); }
  const kernels::View& view() const { return view_; }

 private:
  kernels::View view_;
};

dnnl::matmul::primitive_desc plan_for(const Matrix& out, const Matrix& a, const Matrix& b) {
  using kernels::cpu::describe;
  return kernels::cpu::plan_matmul(describe(a.view()), describe(b.view()), nullptr,
                                   describe(out.view()), kernels::cpu::default_attributes());
}

double seconds_of(const std::function<void()>& work) { return timed_runs(1, work).front(); }

Primitive primitive_for(const Matrix& out, const Matrix& a, const Matrix& b) {
  const auto plan = plan_for(out, a, b);
  if (kernels::cpu::is_reference(plan)) return {};
  return {dnnl::matmul(plan),
          plan.scratchpad_desc(),
          {{DNNL_ARG_SRC, plan.src_desc()},
           {DNNL_ARG_WEIGHTS, plan.weights_desc()},
           {DNNL_ARG_DST, plan.dst_desc()}}};
}

void append(std::vector<MatmulShape>& to, const std::vector<MatmulShape>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::vector<MatmulShape> linear_shapes(int64_t rows, int64_t in, int64_t out, DType dtype,
                                       int64_t count) {
  return {{.m = rows, .n = out, .k = in, .count = count, .dtype = dtype, .b_transposed = true},
          {.m = rows, .n = in, .k = out, .count = count, .dtype = dtype},
          {.m = out, .n = in, .k = rows, .count = count, .dtype = dtype, .a_transposed = true}};
}

std::vector<MatmulShape> vit_shapes(const VitSize& size, int64_t batch, DType dtype) {
  const int64_t rows = batch * (size.patches + 1), width = size.width;
  std::vector<MatmulShape> shapes = linear_shapes(rows, width, 3 * width, dtype, size.depth);
  append(shapes, linear_shapes(rows, width, width, dtype, size.depth));
  append(shapes, linear_shapes(rows, width, 4 * width, dtype, size.depth));
  append(shapes, linear_shapes(rows, 4 * width, width, dtype, size.depth));
  append(shapes, linear_shapes(batch, width, size.classes, dtype));
  auto patches = linear_shapes(batch * size.patches, size.patch_values, width, dtype);
  patches.erase(patches.begin() + 1);  // images need no gradient
  append(shapes, patches);
  return shapes;
}

double total_gflop(const std::vector<MatmulShape>& shapes) {
  double total = 0;
  for (const auto& shape : shapes) total += shape.gflop();
  return total;
}

ShapeTimes measure(const MatmulShape& shape, int runs) {
  const Matrix a(shape.m, shape.k, shape.a_transposed, shape.dtype);
  const Matrix b(shape.k, shape.n, shape.b_transposed, shape.dtype);
  const Matrix out(shape.m, shape.n, false, shape.dtype);
  Primitive product = primitive_for(out, a, b);
  if (!product && shape.dtype != DType::f32) {
    MatmulShape wide = shape;
    wide.dtype = DType::f32;
    return measure(wide, runs);
  }
  const auto kernel = [&] { kernels::on({}).matmul(out.view(), a.view(), b.view(), 0); };
  const auto library = [&] { product({a.view().data, b.view().data, out.view().data}); };
  kernel();
  ShapeTimes shortest = {seconds_of(library), seconds_of(kernel)};
  for (int run = 1; run < runs; ++run) {
    shortest.library = std::min(shortest.library, seconds_of(library));
    shortest.kernel = std::min(shortest.kernel, seconds_of(kernel));
  }
  return shortest;
}

double measure_bound(const std::vector<MatmulShape>& shapes, int runs) {
  double seconds = 0;
  for (const auto& shape : shapes)
    seconds += static_cast<double>(shape.count) * measure(shape, runs).library;
  return total_gflop(shapes) / seconds;
}

}  // namespace booster::benchmarks
