// Matrix product for every dtype and any strides, with packed panels and a register tile. matmul
// uses it for f64, integers and matrices too small for a library call, and tests compare the
// library with it. Each sum runs over k in order, for any number of threads.
#include "kernels/catalogue.h"
#include "kernels/numbers/vectors.h"

namespace booster::kernels::BOOSTER_VARIANT {

namespace {

// One block of the output is block x block; its operands are packed `depth` of k at a time.
constexpr int64_t block = 64;
constexpr int64_t depth = 128;
constexpr int64_t tile_rows = 4;

template <class C>
struct Panels {
  static constexpr int64_t tile_columns = 2 * lanes<C>;

  alignas(64) C a[block * depth];    // [row][k]
  alignas(64) C b[depth * block];    // [k][column]
  alignas(64) C sum[block * block];  // [row][column]
};

constexpr int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// One matrix of a batch; `data` points at its first element.
struct Matrix {
  char* data;
  DType dtype;
  int64_t row_stride, column_stride;
  void* at(int64_t row, int64_t column) const {
    return data + (row * row_stride + column * column_stride) * size_of(dtype);
  }
};

Matrix matrix_of(const View& view, int64_t batch) {
  const int first = view.ndim - 2;
  const int64_t offset = first ? batch * view.strides[0] : 0;
  return {view.as<char>() + offset * size_of(view.dtype), view.dtype, view.strides[first],
          view.strides[first + 1]};
}

template <class C>
void pack_a(C* packed, const Matrix& a, int64_t row, int64_t rows, int64_t k, int64_t ks) {
  for (int64_t i = 0; i < rows; ++i)
    load_run(packed + i * depth, a.at(row + i, k), a.dtype, a.column_stride, ks);
  for (int64_t i = rows; i < round_up(rows, tile_rows); ++i)
    for (int64_t j = 0; j < ks; ++j) packed[i * depth + j] = C(0);
}

// Packs b; reads along the dense direction, and pads columns to `padded` with zeros.
template <class C>
void pack_b(C* packed, const Matrix& b, int64_t k, int64_t ks, int64_t column, int64_t columns,
            int64_t padded) {
  if (b.row_stride == 1 && b.column_stride != 1) {
    for (int64_t j = 0; j < columns; ++j) {
      C run[depth];
      load_run(run, b.at(k, column + j), b.dtype, 1, ks);
      for (int64_t i = 0; i < ks; ++i) packed[i * block + j] = run[i];
    }
  } else {
    for (int64_t i = 0; i < ks; ++i)
      load_run(packed + i * block, b.at(k + i, column), b.dtype, b.column_stride, columns);
  }
  for (int64_t i = 0; i < ks; ++i)
    for (int64_t j = columns; j < padded; ++j) packed[i * block + j] = C(0);
}

// Adds sum += a b for a tile of 4 rows and two vectors of columns, in registers.
template <class C>
void multiply_tile(C* sum, const C* a, const C* b, int64_t ks) {
  Vector<C> total[tile_rows][2];
  for (int64_t r = 0; r < tile_rows; ++r)
    for (int64_t v = 0; v < 2; ++v) total[r][v] = vector_at(sum + r * block + v * lanes<C>);
  for (int64_t k = 0; k < ks; ++k) {
    const Vector<C> left = vector_at(b + k * block), right = vector_at(b + k * block + lanes<C>);
    for (int64_t r = 0; r < tile_rows; ++r) {
      total[r][0] += a[r * depth + k] * left;
      total[r][1] += a[r * depth + k] * right;
    }
  }
  for (int64_t r = 0; r < tile_rows; ++r)
    for (int64_t v = 0; v < 2; ++v) vector_at(sum + r * block + v * lanes<C>) = total[r][v];
}

template <class C>
void store_row(const Matrix& out, int64_t row, int64_t column, int64_t columns, const View& bias,
               double beta, C* sum) {
  C run[block];
  if (bias.data) {
    const char* first = bias.as<const char>() + column * bias.strides[0] * size_of(bias.dtype);
    load_run(run, first, bias.dtype, bias.strides[0], columns);
    for (int64_t j = 0; j < columns; ++j) sum[j] += run[j];
  }
  void* target = out.at(row, column);
  if (beta != 0) {
    load_run(run, target, out.dtype, out.column_stride, columns);
    for (int64_t j = 0; j < columns; ++j) sum[j] += C(beta) * run[j];
  }
  store_run(target, out.dtype, out.column_stride, sum, columns);
}

template <class C>
void multiply_block(const Matrix& out, const Matrix& a, const Matrix& b, const View& bias,
                    double beta, int64_t row, int64_t rows, int64_t column, int64_t columns,
                    int64_t k_size) {
  using P = Panels<C>;
  P panels;
  const int64_t padded_rows = round_up(rows, tile_rows);
  const int64_t padded_columns = round_up(columns, P::tile_columns);
  for (int64_t i = 0; i < padded_rows; ++i)
    for (int64_t j = 0; j < padded_columns; ++j) panels.sum[i * block + j] = C(0);
  for (int64_t k = 0; k < k_size; k += depth) {
    const int64_t ks = smaller(depth, k_size - k);
    pack_a(panels.a, a, row, rows, k, ks);
    pack_b(panels.b, b, k, ks, column, columns, padded_columns);
    for (int64_t j = 0; j < padded_columns; j += P::tile_columns)
      for (int64_t i = 0; i < padded_rows; i += tile_rows)
        multiply_tile(panels.sum + i * block + j, panels.a + i * depth, panels.b + j, ks);
  }
  for (int64_t i = 0; i < rows; ++i)
    store_row(out, row + i, column, columns, bias, beta, panels.sum + i * block);
}

template <class C>
void multiply(const View& out, const View& a, const View& b, const View& bias, double beta) {
  const int first = out.ndim - 2;
  const int64_t batches = first ? out.shape[0] : 1;
  const int64_t m = out.shape[first], n = out.shape[first + 1], k = a.shape[first + 1];
  const int64_t row_blocks = (m + block - 1) / block, column_blocks = (n + block - 1) / block;
  for_each_block(batches * row_blocks * column_blocks, [&](int64_t index) {
    const int64_t column = index % column_blocks * block;
    const int64_t row = index / column_blocks % row_blocks * block;
    const int64_t batch = index / column_blocks / row_blocks;
    multiply_block<C>(matrix_of(out, batch), matrix_of(a, batch), matrix_of(b, batch), bias, beta,
                      row, smaller(block, m - row), column, smaller(block, n - column), k);
  });
}

// Small matrices that need no conversion are not packed, because packing costs more than the
// product: 8 x 8 x 8 in f32 takes 34 ns of one Zen 4 core instead of 333. The order of additions is
// the same.
constexpr int64_t few = 4096;
constexpr int64_t group = 8;  // columns at once

bool is_small(const View& out, const View& a, const View& b, const View& bias, double beta) {
  const bool plain = out.ndim == 2 && !bias.data && beta == 0;
  return plain && out.shape[1] % group == 0 && out.strides[1] == 1 && b.strides[1] == 1 &&
         out.dtype == a.dtype && b.dtype == a.dtype && out.size() * a.shape[1] <= few;
}

// Computes `rows` rows of out, `group` columns; a, b and out point to their first elements.
template <class C, int rows>
void multiply_rows(C* out, const C* a, const C* b, const int64_t* out_strides,
                   const int64_t* a_strides, const int64_t* b_strides, int64_t k_size) {
  typedef C Vector __attribute__((vector_size(group * sizeof(C)), aligned(sizeof(C)), may_alias));
  Vector sum[rows] = {};
  for (int64_t k = 0; k < k_size; ++k) {
    const Vector right = *reinterpret_cast<const Vector*>(b + k * b_strides[0]);
    for (int r = 0; r < rows; ++r) sum[r] += a[r * a_strides[0] + k * a_strides[1]] * right;
  }
  for (int r = 0; r < rows; ++r) *reinterpret_cast<Vector*>(out + r * out_strides[0]) = sum[r];
}

template <class C>
void multiply_small(const View& out, const View& a, const View& b) {
  for (int64_t column = 0; column < out.shape[1]; column += group)
    for (int64_t row = 0; row < out.shape[0];) {
      const bool four = out.shape[0] - row >= tile_rows;
      const auto multiply_some = four ? multiply_rows<C, tile_rows> : multiply_rows<C, 1>;
      multiply_some(out.as<C>() + row * out.strides[0] + column, a.as<C>() + row * a.strides[0],
                    b.as<C>() + column, out.strides, a.strides, b.strides, a.shape[1]);
      row += four ? tile_rows : 1;
    }
}

}  // namespace

void matmul_loop(View out, View a, View b, View bias, double beta) {
  if (is_small(out, a, b, bias, beta)) {
    if (a.dtype == DType::f32) return multiply_small<float>(out, a, b);
    if (a.dtype == DType::f64) return multiply_small<double>(out, a, b);
  }
  if (a.dtype == DType::f64) return multiply<double>(out, a, b, bias, beta);
  if (is_floating(a.dtype)) return multiply<float>(out, a, b, bias, beta);
  multiply<int64_t>(out, a, b, bias, beta);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
