// Reading and adding by index. Sums are in the compute type and in the order of the indices, so
// they are bit-identical for any number of threads. The adding kernels trust their indices: they
// are the backward passes of the reading kernels, which have checked them.
#include "kernels/launch/index_check.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch sum_buffer, term_buffer, start_buffer, order_buffer;

// x seen as (outer, extent, inner) around one dimension.
struct Slices {
  int64_t outer, extent, inner;
};

Slices slices_of(const View& x, int dim) {
  Slices slices = {1, x.ndim ? x.shape[dim] : 1, 1};
  for (int i = 0; i < dim; ++i) slices.outer *= x.shape[i];
  for (int i = dim + 1; i < x.ndim; ++i) slices.inner *= x.shape[i];
  return slices;
}

// Writes the position of the first index outside [0, extent), or -1; returns false if there is one.
bool indices_fit(const View& bad_index, const View& index, int64_t extent) {
  const int64_t bad = first_bad_index(index.as<const int64_t>(), index.size(), extent);
  *bad_index.as<int64_t>() = bad;
  return bad < 0;
}

template <class F>
void visit_sum_type(DType dtype, F&& f) {
  if (is_floating(dtype)) return visit_compute(dtype, f);
  f(static_cast<int64_t*>(nullptr));
}

// Sets to[i] = from[index[i]] for elements of type T, for runs of n indices.
template <class T>
void select_elements(T* to, const T* from, const int64_t* index, int64_t n) {
  typedef T One __attribute__((may_alias));
  for (int64_t i = 0; i < n; ++i)
    static_cast<One*>(to)[i] = static_cast<const One*>(from)[index[i]];
}

// Sets out[o][i] = x[o][index[i]] for slices of `inner` elements.
void select_slices(const View& out, const View& x, const View& index, Slices slices) {
  const int64_t n = index.size(), bytes = slices.inner * size_of(x.dtype);
  const int64_t* position = index.as<const int64_t>();
  const char* from = x.as<const char>();
  char* to = out.as<char>();
  const auto for_each_run = [&](auto&& body) {
    for_each_range(slices.outer * n, grain_for(slices.inner), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t outer = i / n, first = i % n, left = n - first;
        const int64_t count = left < end - i ? left : end - i;
        body(to + i * bytes, from + outer * slices.extent * bytes, position + first, count);
        i += count;
      }
    });
  };
  const auto select_as = [&]<class T>(T*) {
    for_each_run([](char* there, const char* here, const int64_t* at, int64_t count) {
      select_elements(reinterpret_cast<T*>(there), reinterpret_cast<const T*>(here), at, count);
    });
  };
  if (slices.outer * n == 0) return;
  switch (bytes) {
    case 1: return select_as(static_cast<uint8_t*>(nullptr));
    case 2: return select_as(static_cast<uint16_t*>(nullptr));
    case 4: return select_as(static_cast<uint32_t*>(nullptr));
    case 8: return select_as(static_cast<uint64_t*>(nullptr));
    default: break;
  }
  for_each_run([=](char* there, const char* here, const int64_t* at, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      __builtin_memcpy(there + i * bytes, here + at[i] * bytes, static_cast<size_t>(bytes));
  });
}

// Positions grouped by index, in order within a group, by a counting sort: the positions of index r
// are order[start[r]] .. order[start[r + 1] - 1].
struct Groups {
  const int64_t* start;
  const int64_t* order;
};

Groups group_by_index(const int64_t* index, int64_t n, int64_t extent) {
  int64_t* start = start_buffer.get<int64_t>(extent + 2);
  int64_t* order = order_buffer.get<int64_t>(n);
  for (int64_t r = 0; r < extent + 2; ++r) start[r] = 0;
  for (int64_t i = 0; i < n; ++i) ++start[index[i] + 2];
  for (int64_t r = 2; r < extent + 2; ++r) start[r] += start[r - 1];
  for (int64_t i = 0; i < n; ++i) order[start[index[i] + 1]++] = i;
  return {start, order};
}

// Adds out[o][index[i]] += g[o][i] for slices of `inner` elements; skips index `skipped`.
void add_slices(const View& out, const View& g, const View& index, Slices slices, int64_t skipped) {
  const int64_t n = index.size(), inner = slices.inner;
  const Groups groups = group_by_index(index.as<const int64_t>(), n, slices.extent);
  const auto add_group = [&]<class C>(C*, int64_t o, int64_t r) {
    const int64_t element = (o * slices.extent + r) * inner;
    C* sum = row_target(out, element, sum_buffer.get<C>(inner));
    load_run(sum, out.as<char>() + element * size_of(out.dtype), out.dtype, 1, inner);
    for (int64_t k = groups.start[r]; k < groups.start[r + 1]; ++k) {
      const C* term =
          read_row(g, (o * n + groups.order[k]) * inner, inner, term_buffer.get<C>(inner));
#pragma omp simd
      for (int64_t i = 0; i < inner; ++i) sum[i] += term[i];
    }
    write_row(out, element, inner, sum);
  };
  visit_sum_type(out.dtype, [&](auto* compute) {
    for_each_range(slices.extent, grain_for(inner), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        if (r == skipped || groups.start[r] == groups.start[r + 1]) continue;
        for (int64_t o = 0; o < slices.outer; ++o) add_group(compute, o, r);
      }
    });
  });
}

// Returns the offset in x of the first element of a row of `shaped`, without the part that `dim`
// contributes. A row is along the last dimension.
int64_t offset_of_row(const View& x, const View& shaped, int dim, int64_t row) {
  int64_t offset = 0;
  for (int i = shaped.ndim - 2; i >= 0; --i) {
    if (i != dim) offset += row % shaped.shape[i] * x.strides[i];
    row /= shaped.shape[i];
  }
  return offset;
}

// Calls body(element, offset) for the elements of `index` in the given rows: `offset` is the offset
// of the indexed element in x.
template <class Body>
void for_each_indexed(const View& x, const View& index, int dim, int64_t begin, int64_t end,
                      Body&& body) {
  const int64_t columns = index.columns();
  const int64_t step = index.ndim && dim == index.ndim - 1 ? 0 : 1;
  const int64_t stride = index.ndim ? x.strides[dim] : 0;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t base = offset_of_row(x, index, dim, row);
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t element = row * columns + j;
      body(element, base + index.as<const int64_t>()[element] * stride + j * step);
    }
  }
}

}  // namespace

void embedding(View out, View bad_index, View table, View index) {
  if (indices_fit(bad_index, index, table.shape[0]))
    select_slices(out, table, index, slices_of(table, 0));
}

void embedding_backward(View dtable, View g, View index, int64_t padding_index) {
  add_slices(dtable, g, index, slices_of(dtable, 0), padding_index);
}

void index_select(View out, View bad_index, View x, View index, int dim) {
  const Slices slices = slices_of(x, dim);
  if (indices_fit(bad_index, index, slices.extent)) select_slices(out, x, index, slices);
}

void index_add(View out, View g, View index, int dim) {
  add_slices(out, g, index, slices_of(out, dim), -1);
}

void gather(View out, View bad_index, View x, View index, int dim) {
  if (!indices_fit(bad_index, index, slices_of(x, dim).extent)) return;
  // Booleans move as bytes with any values.
  visit(x.dtype == DType::boolean ? DType::u8 : x.dtype, [&]<class T>(T*) {
    const T* from = static_cast<const T*>(x.data);
    T* to = static_cast<T*>(out.data);
    for_each_range(index.rows(), grain_for(index.columns()), [&](int64_t begin, int64_t end) {
      for_each_indexed(x, index, dim, begin, end,
                       [=](int64_t element, int64_t offset) { to[element] = from[offset]; });
    });
  });
}

// Adds by index. Elements with different indices in a dimension before `dim` go to different slices
// of out, each one block of work.
void scatter_add(View out, View g, View index, int dim) {
  const Slices slices = slices_of(out, dim);
  const int64_t size = slices.extent * slices.inner;
  const int64_t blocks = slices_of(index, dim).outer;
  const int64_t rows = blocks ? index.rows() / blocks : 0;
  visit_sum_type(out.dtype, [&]<class C>(C*) {
    for_each_block(index.size() ? blocks : 0, [&](int64_t block) {
      const int64_t first = block * rows * index.columns(), n = rows * index.columns();
      const int64_t base = offset_of_row(out, index, dim, block * rows);
      C* sums = row_target(out, base, sum_buffer.get<C>(size));
      load_run(sums, out.as<char>() + base * size_of(out.dtype), out.dtype, 1, size);
      const C* terms = read_row(g, first, n, term_buffer.get<C>(n));
      for_each_indexed(
          out, index, dim, block * rows, (block + 1) * rows,
          [=](int64_t element, int64_t offset) { sums[offset - base] += terms[element - first]; });
      write_row(out, base, size, sums);
    });
  });
}

// Writes by index. One block of work writes to one slice of out, as in scatter_add. Of several
// elements for one place, the same one is therefore last, for any number of threads.
void scatter(View out, View src, View index, int dim) {
  const int64_t blocks = slices_of(index, dim).outer;
  const int64_t rows = blocks ? index.rows() / blocks : 0;
  visit(out.dtype == DType::boolean ? DType::u8 : out.dtype, [&]<class T>(T*) {
    const T* from = static_cast<const T*>(src.data);
    T* to = static_cast<T*>(out.data);
    for_each_block(index.size() ? blocks : 0, [&](int64_t block) {
      for_each_indexed(out, index, dim, block * rows, (block + 1) * rows,
                       [=](int64_t element, int64_t offset) { to[offset] = from[element]; });
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
