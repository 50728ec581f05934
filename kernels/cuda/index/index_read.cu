// Reading by index. Indices are checked first, on the device: a kernel that finds *bad_index set
// reads and writes nothing.
#include "kernels/catalogue.h"
#include "kernels/cuda/index/slices.cuh"
#include "kernels/cuda/index/words.cuh"
#include "kernels/cuda/tiled_fold.cuh"
#include "kernels/launch/index_check.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct FirstPosition {
  using Value = int64_t;
  KERNEL_FN int64_t identity() const { return INT64_MAX; }
  KERNEL_FN int64_t combine(int64_t a, int64_t b) const { return a < b ? a : b; }
};

// Sets *bad_index = the position of the first index outside of [0, extent), or -1.
const int64_t* find_bad_index(const View& bad_index, const View& index, int64_t extent) {
  const int64_t* indices = index.as<const int64_t>();
  int64_t* bad = bad_index.as<int64_t>();
  const auto read = [=] ON_DEVICE(const FirstPosition& fold, int64_t, int64_t i, int64_t end,
                                  int64_t step) {
    int64_t first = fold.identity();
    for (; i < end; i += step)
      if (outside(indices[i], extent)) first = fold.combine(first, i);
    return first;
  };
  const auto finish = [=] ON_DEVICE(int64_t, int64_t first) {
    *bad = first == INT64_MAX ? -1 : first;
  };
  fold_all(tiling_of(1, index.size(), false), FirstPosition(), read, finish);
  return bad;
}

// Returns the largest power of two that divides all of `bytes`, up to 16.
int64_t word_size(uint64_t bytes) {
  int64_t size = 1;
  while (size < 16 && bytes % (2 * size) == 0) size *= 2;
  return size;
}

// Sets out[o][i] = x[o][index[i]] for slices of `words` words.
template <class Word>
void select_words(const View& out, const int64_t* bad, const View& x, const View& index,
                  const Slices& slices, int64_t words) {
  const int64_t n = index.size(), extent = slices.extent;
  const int64_t* indices = index.as<const int64_t>();
  const Word* from = x.as<const Word>();
  Word* to = out.as<Word>();
  for_each_item(slices.outer * n * words, [=] ON_DEVICE(int64_t i) {
    if (*bad >= 0) return;
    const int64_t slice = quotient(i, words), o = quotient(slice, n);
    const int64_t from_slice = o * extent + indices[slice - o * n];
    to[i] = from[from_slice * words + i - slice * words];
  });
}

void select_slices(const View& out, const View& bad_index, const View& x, const View& index,
                   int dim) {
  const Slices slices = slices_of(x, dim);
  const int64_t* bad = find_bad_index(bad_index, index, slices.extent);
  const int64_t bytes = slices.inner * size_of(x.dtype);
  const auto address = [](const View& view) { return reinterpret_cast<uint64_t>(view.data); };
  visit_word(word_size(bytes | address(out) | address(x)), [&]<class Word>(Word*) {
    select_words<Word>(out, bad, x, index, slices, bytes / static_cast<int64_t>(sizeof(Word)));
  });
}

template <class Word>
void gather_words(const View& out, const int64_t* bad, const View& x, const View& index, int dim) {
  const Space space = space_without(x, index, dim);
  const int64_t stride = index.ndim ? x.strides[dim] : 0;
  const int64_t* indices = index.as<const int64_t>();
  const Word* from = x.as<const Word>();
  Word* to = out.as<Word>();
  for_each_item(index.size(), [=] ON_DEVICE(int64_t i) {
    if (*bad < 0) to[i] = from[space.offset(i) + indices[i] * stride];
  });
}

}  // namespace

void embedding(View out, View bad_index, View table, View index) {
  select_slices(out, bad_index, table, index, 0);
}

void index_select(View out, View bad_index, View x, View index, int dim) {
  select_slices(out, bad_index, x, index, dim);
}

void gather(View out, View bad_index, View x, View index, int dim) {
  const int64_t* bad = find_bad_index(bad_index, index, slices_of(x, dim).extent);
  visit_word(size_of(x.dtype),
             [&]<class Word>(Word*) { gather_words<Word>(out, bad, x, index, dim); });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
