// Matrix product on the CPU: oneDNN for f32, bf16 and (its version 3) f16. A 16-bit dtype that the
// processor or the library lacks is converted exactly to f32, with one rounding at the end. f64,
// integers and sizes too small for a library call use the packed loop of matmul_loop.cpp.
// Few rows, and a matrix times a vector, use few_rows.cpp.
//
// oneDNN 2.6.3 takes each input row- or column-major at full speed but the output only row-major. A
// column-major output would use its reference code, 1000 times slower, so it is computed as out^T =
// b^T a^T. On the shapes of ViT-B/16, batch 8, one 3.5 GHz Zen 4 core (peak 112 GFLOP/s in f32, 224
// in bf16) reaches
//   y = x w^T    97 to 106    196 to 207      with weights packed before: 106 to 110, 213 to 218
//   dx = g w     95 to 108    195 to 203      with weights packed before: 108 to 111, 213 to 219
//   dw = g^T x   97 to 103    190 to 195      with g^T copied before: 102 to 106, 202 to 207
// A new shape costs 0.3 to 0.6 ms of code generation once per process. On two threads packing gains
// more: see worth_packing.
//
// Sums have the same bits on any number of threads, except in f32 below AVX-512, where oneDNN
// divides a long k between threads.
#include "kernels/catalogue.h"
#include "kernels/cpu/library_plans.h"
#include "kernels/cpu/primitive.h"
#include "kernels/device/memory.h"
#include "platform/threads.h"

#include <algorithm>

namespace booster::kernels::cpu {

namespace {

using dnnl::memory;

// Up to this many multiplications the loop is at least as fast as a library call. 8 x 8 x 8 takes
// 0.3 us; the call itself takes 0.5 us. They are equal near 16 x 16 x 16.
constexpr int64_t small_product = 4096;

// Returns the view as (batch, rows, columns), the form of every view below.
View as_batch(const View& view) {
  if (view.ndim == 3) return view;
  View result = view;
  result.ndim = 3;
  for (int i = 0; i < 2; ++i) {
    result.shape[i + 1] = view.shape[i];
    result.strides[i + 1] = view.strides[i];
  }
  result.shape[0] = 1;
  result.strides[0] = 0;
  return result;
}

// Gives dimensions of size 1 the strides of a row-major matrix, or of a column-major one if
// necessary. So equal layouts have equal keys.
void normalise(View& view) {
  const int64_t rows = view.shape[1], columns = view.shape[2];
  int64_t &row = view.strides[1], &column = view.strides[2];
  if (columns == 1) column = 1;
  if (rows == 1) row = column == 1 ? columns : 1;
  if (view.shape[0] == 1) view.strides[0] = rows * columns;
}

bool row_major(const View& view) {
  return view.strides[2] == 1 && view.strides[1] >= view.shape[2];
}
bool column_major(const View& view) {
  return view.strides[1] == 1 && view.strides[2] >= view.shape[1];
}

struct Key {
  int64_t batch, m, n, k;
  int64_t strides[3][3];
  DType out_dtype, dtype;
  bool bias;
  int8_t padding;
  float beta;
  int64_t threads;
};

Key key_of(const View& out, const View& a, const View& b, const View& bias, double beta) {
  Key key = {.batch = out.shape[0],
             .m = out.shape[1],
             .n = out.shape[2],
             .k = a.shape[2],
             .strides = {},
             .out_dtype = out.dtype,
             .dtype = a.dtype,
             .bias = bias.data != nullptr,
             .padding = 0,
             .beta = static_cast<float>(beta),
             .threads = thread_count()};
  const View* views[] = {&out, &a, &b};
  for (int i = 0; i < 3; ++i) std::copy_n(views[i]->strides, 3, key.strides[i]);
  return key;
}

// Returns a batch of one as a plain matrix: the library has packed layouts only for matrices.
View matrix_in(const View& view) {
  View matrix = view;
  matrix.ndim = 2;
  for (int i = 0; i < 2; ++i) {
    matrix.shape[i] = view.shape[i + 1];
    matrix.strides[i] = view.strides[i + 1];
  }
  return matrix;
}

// Describes an f32 row, which oneDNN adds before it rounds.
memory::desc describe_bias(const View& bias, int ndim) {
  const int64_t n = bias.shape[0];
  if (ndim == 2) return {{1, n}, memory::data_type::f32, memory::format_tag::ab};
  return {{1, 1, n}, memory::data_type::f32, memory::format_tag::abc};
}

// Returns true if packing b at each use is faster. The library would pack it too, but once per
// thread and strip of rows. On two threads this gains, packing included, 1 to 12 % in bf16 for the
// weights of ViT-B/16, batch 8 (ViT-Ti 3 to 25 %). In f32 it gains up to 6 % if b is row-major,
// otherwise nothing (benchmarks/matmul_bound). Two cases are excluded: few rows, and columns a
// multiple of 2 KiB apart, whose cache lines evict each other during packing.
bool worth_packing(const View& a, const View& b) {
  constexpr int64_t many_rows = 512, colliding_bytes = 2048;
  const bool collides = column_major(b) && b.strides[2] * size_of(b.dtype) % colliding_bytes == 0;
  const bool gains = b.dtype == DType::bf16 || row_major(b);
  return gains && a.shape[0] == 1 && row_major(a) && a.shape[1] >= many_rows && b.shape[2] >= 64 &&
         !collides;
}

// A library product, with the reorder of b to the layout that the library prefers.
class Product {
 public:
  // Makes an empty one: "the library refuses the layout or dtype, or has only reference code for
  // it".
  Product() = default;
  Product(const dnnl::matmul::primitive_desc& plan, const memory::desc& b, bool bias)
      : pack_(b, plan.weights_desc(), plan.weights_desc()) {
    const Argument left = {DNNL_ARG_SRC, plan.src_desc()};
    const Argument right = {DNNL_ARG_WEIGHTS, plan.weights_desc()};
    const Argument result = {DNNL_ARG_DST, plan.dst_desc()};
    const dnnl::matmul matmul(plan);
    const auto working = plan.scratchpad_desc();
    primitive_ =
        bias ? Primitive(matmul, working, {left, right, result, {DNNL_ARG_BIAS, plan.bias_desc()}})
             : Primitive(matmul, working, {left, right, result});
  }

  explicit operator bool() const { return static_cast<bool>(primitive_); }

  void operator()(const View& out, const View& a, const View& b, const View& bias) {
    void* right = pack_.place(ScratchUse::library_right, b.data);
    pack_.run(b.data, right);
    if (bias.data)
      primitive_({a.data, right, out.data, bias.data});
    else
      primitive_({a.data, right, out.data});
  }

 private:
  Primitive primitive_;
  Reorder pack_;
};

Product make_product(const View& out, const View& a, const View& b, const View& bias, double beta) {
  auto attributes = default_attributes();
  if (beta != 0) {
    dnnl::post_ops accumulate;
    accumulate.append_sum(static_cast<float>(beta));
    attributes.set_post_ops(accumulate);
  }
  const bool one = out.shape[0] == 1;
  const auto layout = [&](const View& view) { return describe(one ? matrix_in(view) : view); };
  const memory::desc right = worth_packing(a, b) ? any_layout(matrix_in(b)) : layout(b);
  const auto added = bias.data ? describe_bias(bias, one ? 2 : 3) : memory::desc();
  const auto plan =
      plan_matmul(layout(a), right, bias.data ? &added : nullptr, layout(out), attributes);
  return is_reference(plan) ? Product() : Product(plan, layout(b), bias.data);
}

// Returns false if the library cannot do it.
bool library_product(const View& out, const View& a, const View& b, const View& bias, double beta) {
  thread_local CallCache<Key, Product> cache;
  Product& product = cache.find(key_of(out, a, b, bias, beta),
                                [&] { return make_product(out, a, b, bias, beta); });
  if (!product) return false;
  product(out, a, b, bias);
  return true;
}

// Returns the view itself if it has this dtype and a layout that the library takes, else a copy.
View readable(ScratchUse use, DType dtype, const View& view) {
  if (view.dtype == dtype && (row_major(view) || column_major(view))) return view;
  return copied(use, dtype, view);
}

void product(View out, View a, View b, const View& bias, double beta);

// Computes a row-major f32 copy of out, then converts (and rounds) it once into the caller's out.
void product_by_copy(const View& out, const View& a, const View& b, const View& bias, double beta) {
  const View result = beta != 0 ? copied(ScratchUse::result, DType::f32, out)
                                : scratch_view(ScratchUse::result, DType::f32, out);
  product(result, a, b, bias, beta);
  on({}).copy(out, result);
}

// Returns true if (batch, m, k) x one (k, n) is one large product, because the rows have no gaps.
bool joins_into_one(const View& out, const View& a, const View& b, const View& bias) {
  const auto dense = [](const View& view) {
    return row_major(view) && view.strides[0] == view.shape[1] * view.strides[1];
  };
  return out.shape[0] > 1 && b.strides[0] == 0 && dense(out) && dense(a) && !bias.data;
}

View joined(View view) {
  view.shape[1] *= view.shape[0];
  view.shape[0] = 1;
  normalise(view);
  return view;
}

View matrix_at(View view, int64_t batch) {
  view.data = view.as<char>() + batch * view.strides[0] * size_of(view.dtype);
  view.shape[0] = 1;
  normalise(view);
  return view;
}

void product_one_by_one(const View& out, const View& a, const View& b, double beta) {
  for (int64_t i = 0; i < out.shape[0]; ++i)
    product(matrix_at(out, i), matrix_at(a, i), matrix_at(b, i), {}, beta);
}

// Computes a product with out row-major and bias f32.
void product_of_plain(const View& out, const View& a, const View& b, const View& bias,
                      double beta) {
  const auto by_library = [&](DType dtype) {
    return library_product(out, readable(ScratchUse::left, dtype, a),
                           readable(ScratchUse::right, dtype, b), bias, beta);
  };
  if (is_16_bit(a.dtype) && b.dtype == a.dtype && by_library(a.dtype)) return;
  if (out.dtype != DType::f32) return product_by_copy(out, a, b, bias, beta);
  if (!by_library(DType::f32)) on({}).matmul_loop(out, a, b, bias, beta);
}

// Computes a product of f32, bf16 or f16 in any layout; bias is f32.
void product(View out, View a, View b, const View& bias, double beta) {
  for (View* view : {&out, &a, &b}) normalise(*view);
  if (joins_into_one(out, a, b, bias))
    return product(joined(out), joined(a), matrix_at(b, 0), bias, beta);
  if (out.shape[0] > 1 && (a.strides[0] == 0 || b.strides[0] == 0))
    return product_one_by_one(out, a, b, beta);
  // A column-major matrix times a vector: the library is faster at a vector times rows.
  if (out.shape[0] == 1 && out.shape[2] == 1 && out.strides[1] == 1 && !row_major(a) &&
      column_major(a) && !bias.data)
    return product(transposed(out), transposed(b), transposed(a), bias, beta);
  if (row_major(out)) return product_of_plain(out, a, b, bias, beta);
  if (column_major(out) && !bias.data)
    return product_of_plain(transposed(out), transposed(b), transposed(a), bias, beta);
  product_by_copy(out, a, b, bias, beta);
}

// Up to this many rows memory decides the time, and few_rows reads it faster than the library.
// Shorter sums would be mostly remainders of vectors.
constexpr int64_t few = 8, shortest_sum = 64;

// Computes out = a b + bias by few_rows if a has few rows and b is column-major, as a linear
// layer's weight is.
bool product_of_few(const View& out, const View& a, const View& b, const View& bias) {
  const bool suits = out.ndim == 2 && a.shape[0] <= few && b.strides[0] == 1 && b.dtype == a.dtype;
  if (suits) on({}).few_rows(out, a, transposed(b), bias);
  return suits;
}

void product_of_any(const View& out, const View& a, const View& b, const View& bias, double beta) {
  if (out.size() == 0) return;
  const int64_t m = out.shape[out.ndim - 2], n = out.columns(), k = a.columns();
  const auto loop = [&] { on({}).matmul_loop(out, a, b, bias, beta); };
  if (a.dtype == DType::f64 || !is_floating(a.dtype)) return loop();
  if (beta == 0 && k >= shortest_sum) {
    if (product_of_few(out, a, b, bias)) return;
    if (!bias.data && product_of_few(transposed(out), transposed(b), transposed(a), {})) return;
  }
  if (m * n * k <= small_product) return loop();
  const bool convert_bias = bias.data && (bias.dtype != DType::f32 || bias.strides[0] != 1);
  product(as_batch(out), as_batch(a), as_batch(b),
          convert_bias ? copied(ScratchUse::bias, DType::f32, bias) : bias, beta);
}

}  // namespace

void matmul(View out, View a, View b, double beta) { product_of_any(out, a, b, {}, beta); }

void linear(View y, View x, View w, View bias) { product_of_any(y, x, transposed(w), bias, 0); }

void linear_backward_weight(View dweight, View dbias, View g, View x, double beta) {
  product_of_any(dweight, transposed(g), x, {}, beta);
  if (dbias.data) on({}).column_sums(dbias, g);
}

}  // namespace booster::kernels::cpu
