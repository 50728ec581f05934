// Adding by index, in the order of the indices. Positions are sorted by destination. One thread
// adds all terms of one element, or of four neighbours of a slice, in the compute type, as on the
// CPU. It trusts the indices: these are the backward passes of the reading kernels, which have
// checked them.
#include "kernels/catalogue.h"
#include "kernels/numbers/convert.h"
#include "kernels/cuda/element_group.cuh"
#include "kernels/cuda/index/slices.cuh"
#include "kernels/cuda/index/sort.cuh"
#include "kernels/cuda/index/targets.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// out[o][key[i]] += g[o][i] for slices of `inner` elements.
struct Addition {
  View out, g;
  Slices slices;
  int64_t n;
  const int64_t* keys;
  const int64_t* order;  // of the positions by key
  int64_t skipped;       // key that gets no sum

  __device__ bool begins_group(int64_t k) const {
    const int64_t key = keys[order[k]];
    return key != skipped && (k == 0 || keys[order[k - 1]] != key);
  }
  // Loads the sums so far of `size` neighbours, the first at i. Adds the terms at sorted positions
  // k, k + 1, ... while their key is the same.
  template <class C, int size>
  __device__ void add_group(int64_t k, int64_t o, int64_t i) const {
    constexpr int batch = 4;  // reads in flight at once
    const int64_t key = keys[order[k]], left = slices.inner - i;
    const int count = left < size ? static_cast<int>(left) : size;
    const ElementGroup element = {(o * slices.extent + key) * slices.inner + i, count};
    C sum[size] = {};
    load_neighbours(sum, out, element);
    for (bool more = true; more; k += batch) {
      bool same[batch];
      C term[batch][size] = {};
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        const int64_t position = k + j < n ? order[k + j] : -1;
        same[j] = position >= 0 && keys[position] == key;
        if (same[j]) load_neighbours(term[j], g, {(o * n + position) * slices.inner + i, count});
      }
#pragma unroll
      for (int j = 0; j < batch; ++j)
#pragma unroll
        for (int e = 0; e < size; ++e)
          if (same[j]) sum[e] += term[j][e];
      more = same[batch - 1];
    }
    if constexpr (size > 1)
      store_group(out.data, out.dtype, element, sum);
    else
      store_any<C>(out.data, out.dtype, element.first, sum[0]);
  }

 private:
  template <class C, int size>
  static __device__ void load_neighbours(C (&to)[size], const View& x, ElementGroup at) {
    if constexpr (size > 1)
      load_group(to, x.data, x.dtype, at);
    else
      to[0] = load_any<C>(x.data, x.dtype, at.first);
  }
};

// Gives each thread `size` neighbours of a slice.
template <class C, int size = 1>
void add_groups(const Addition& addition) {
  constexpr int64_t per_thread = 8;  // with repeated indices most have nothing to add
  const int64_t inner = (addition.slices.inner + size - 1) / size;
  const int64_t slice = addition.slices.outer * inner, items = addition.n * slice;
  const int64_t per_block = per_thread * threads_per_block;
  for_each_block((items + per_block - 1) / per_block, [=] ON_DEVICE(int64_t block) {
    for (int64_t turn = 0; turn < per_thread; ++turn) {
      const int64_t item = block * per_block + turn * threads_per_block + threadIdx.x;
      if (item >= items) return;
      const int64_t k = quotient(item, slice), rest = item - k * slice;
      if (!addition.begins_group(k)) continue;
      const int64_t o = quotient(rest, inner);
      addition.template add_group<C, size>(k, o, (rest - o * inner) * size);
    }
  });
}

void add_at(const View& out, const View& g, const int64_t* keys, int64_t n, const Slices& slices,
            int64_t skipped) {
  if (n == 0 || slices.outer * slices.inner == 0) return;
  const SortedPositions order(keys, n, slices.extent);
  const Addition addition = {out, g, slices, n, keys, order.data(), skipped};
  if (out.dtype == DType::f64) return add_groups<double>(addition);
  if (!is_floating(out.dtype)) return add_groups<int64_t>(addition);
  if (slices.inner >= quad) return add_groups<float, quad>(addition);
  add_groups<float>(addition);
}

}  // namespace

void embedding_backward(View dtable, View g, View index, int64_t padding_index) {
  add_at(dtable, g, index.as<const int64_t>(), index.size(), slices_of(dtable, 0), padding_index);
}

void index_add(View out, View g, View index, int dim) {
  add_at(out, g, index.as<const int64_t>(), index.size(), slices_of(out, dim), -1);
}

void scatter_add(View out, View g, View index, int dim) {
  const Workspace<int64_t> targets(index.size());
  write_targets(out, index, dim, targets.data());
  add_at(out, g, targets.data(), index.size(), {1, out.size(), 1}, -1);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
