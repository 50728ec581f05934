// Rows of `channels` numbers, images in the order (n, h, w, channels), worked on a block of rows at
// a time and in it a vector of channels after the other, down the rows: what is known of these
// channels, and their sums, stay in registers. Blocks depend only on the sizes. For the CPU.
#pragma once

#include "kernels/launch/workspace.h"
#include "kernels/numbers/vectors.h"

namespace booster::kernels::BOOSTER_VARIANT::channel_rows {

inline thread_local Scratch lane_buffer;   // of a block
inline thread_local Scratch table_buffer;  // of a call

inline constexpr int64_t block_size = 2048;  // numbers: 8 KB in f32

// Rows of `width` numbers, a whole number of vectors: several of `channels` numbers if need be.
struct Layout {
  int64_t rows, channels, fold, rows_per_block;

  Layout(const View& x, int64_t vector)
      : rows(x.shape[0] * x.shape[2] * x.shape[3]), channels(x.shape[1]), fold(vector) {
    for (int64_t c = channels; fold > 1 && c % 2 == 0; c /= 2) fold /= 2;
    rows_per_block = fold * (width() < block_size ? block_size / width() : 1);
  }
  int64_t width() const { return channels * fold; }
  int64_t blocks() const { return (rows + rows_per_block - 1) / rows_per_block; }
  int64_t first(int64_t block) const { return block * rows_per_block * channels; }  // number
  int64_t rows_in(int64_t block) const {
    const int64_t left = rows - block * rows_per_block;
    return left < rows_per_block ? left : rows_per_block;
  }
  int64_t end(int64_t block) const { return first(block) + rows_in(block) * channels; }
  // The end of those in whole rows of `width`.
  int64_t whole_end(int64_t block) const {
    return first(block) + rows_in(block) / fold * fold * channels;
  }
};

// How many numbers are worked on at once. (Templates cannot take vectors themselves: these have
// attributes.)
template <class C>
struct One {
  using Numbers = C;
};
template <class C>
struct Many {
  using Numbers = Vector<C>;
};
template <class N>
using Numbers = typename N::Numbers;

template <class N, class T>
KERNEL_FN Numbers<N> read(const T* p) {
  if constexpr (sizeof(Numbers<N>) < vector_bytes)
    return load<Numbers<N>>(p);
  else
    return load_vector(p);
}
template <class N, class T>
KERNEL_FN void write(T* p, Numbers<N> x) {
  if constexpr (sizeof(x) < vector_bytes)
    store<Numbers<N>>(p, x);
  else
    store_vector(p, x);
}
// As they are once they are stored.
template <class N, class T>
KERNEL_FN Numbers<N> rounded(Numbers<N> x) {
  if constexpr (sizeof(T) > 2) return x;
  T stored[sizeof(x) / sizeof(float)];
  write<N>(stored, x);
  return read<N>(stored);
}
template <class N>
KERNEL_FN Numbers<N> above_zero(Numbers<N> x) {
  return x <= Numbers<N>{} ? Numbers<N>{} : x;
}

// Calls work(i) for the numbers of a block, where work = prepare<N>(lane) is made for a vector of
// lanes; for one lane where the last rows do not fill `width`.
template <class C, class Prepare>
KERNEL_FN void for_each_number(const Layout& layout, int64_t block, Prepare&& prepare) {
  const int64_t width = layout.width(), first = layout.first(block);
  const int64_t whole = layout.whole_end(block), end = layout.end(block);
  for (int64_t lane = 0; lane < width; lane += lanes<C>) {
    const auto work = prepare.template operator()<Many<C>>(lane);
    for (int64_t i = first + lane; i < whole; i += width) work(i);
  }
  for (int64_t i = whole; i < end; ++i) prepare.template operator()<One<C>>(i - whole)(i);
}

// Numbers that are summed at once.
template <class N, int n>
struct Terms {
  Numbers<N> of[n];

  KERNEL_FN void operator+=(const Terms& other) {
    for (int k = 0; k < n; ++k) of[k] += other.of[k];
  }
};

// sums[k][channel] = the sum of work(i).of[k] over a block, with work as above. Two rows at a time:
// a sum waits for the one before.
template <class C, int n, class Prepare>
KERNEL_FN void sum_by_channel(const Layout& layout, int64_t block, C* const (&sums)[n],
                              Prepare&& prepare) {
  const int64_t width = layout.width(), channels = layout.channels, first = layout.first(block);
  const int64_t whole = layout.whole_end(block), end = layout.end(block);
  C* totals = lane_buffer.get<C>(n * width);
  for (int64_t lane = 0; lane < width; lane += lanes<C>) {
    const auto work = prepare.template operator()<Many<C>>(lane);
    Terms<Many<C>, n> total = {}, other = {};
    int64_t i = first + lane;
    for (; i + width < whole; i += 2 * width) {
      total += work(i);
      other += work(i + width);
    }
    if (i < whole) total += work(i);
    total += other;
    for (int k = 0; k < n; ++k) vector_at(totals + k * width + lane) = total.of[k];
  }
  for (int64_t i = whole; i < end; ++i) {
    const Terms<One<C>, n> terms = prepare.template operator()<One<C>>(i - whole)(i);
    for (int k = 0; k < n; ++k) totals[k * width + i - whole] += terms.of[k];
  }
  for (int k = 0; k < n; ++k)
    for (int64_t c = 0; c < channels; ++c) {
      C sum = C(0);
      for (int64_t lane = c; lane < width; lane += channels) sum += totals[k * width + lane];
      sums[k][c] = sum;
    }
}

// A channel's number for each of its lanes.
template <class C>
void repeat(const Layout& layout, C* lanes, int64_t channel, C value) {
  for (int64_t lane = channel; lane < layout.width(); lane += layout.channels) lanes[lane] = value;
}

// Tables of such numbers.
template <class C>
class Tables {
 public:
  Tables(const Layout& layout, int count)
      : layout_(layout), numbers_(table_buffer.get<C>(count * layout.width())) {}
  void set(int table, int64_t channel, C value) {
    repeat(layout_, numbers_ + table * layout_.width(), channel, value);
  }
  // A channel's first lane is its own number.
  C of_channel(int table, int64_t channel) const {
    return numbers_[table * layout_.width() + channel];
  }
  template <class N>
  Numbers<N> at(int table, int64_t lane) const {
    return read<N>(numbers_ + table * layout_.width() + lane);
  }

 private:
  const Layout& layout_;
  C* numbers_;
};

}  // namespace booster::kernels::BOOSTER_VARIANT::channel_rows
