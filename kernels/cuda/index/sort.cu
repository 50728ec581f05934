#include "kernels/cuda/index/sort.cuh"

#include "kernels/cuda/index/scan.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int digit_bits = 4, digits = 1 << digit_bits;
constexpr int run = 8;  // positions in a row that one thread moves
constexpr int tile = run * threads_per_block;
constexpr int counters = digits * threads_per_block;

// One step of the sort: by the digit of the keys at bit `shift`.
struct Step {
  const int64_t* keys;
  const int64_t* from;  // positions in the order so far; null: 0, 1, 2, ...
  int64_t n;
  int shift;

  int64_t tiles() const { return (n + tile - 1) / tile; }
  __device__ int64_t position(int64_t i) const { return from ? from[i] : i; }
  // Calls body(position, digit) for those that this thread moves.
  template <class Body>
  __device__ void for_each_of_thread(int64_t block, Body&& body) const {
    const int64_t begin = block * tile + int64_t(threadIdx.x) * run;
    for (int64_t i = begin; i < begin + run && i < n; ++i) {
      const int64_t at = position(i);
      body(at, static_cast<int>(keys[at] >> shift) & (digits - 1));
    }
  }
};

// Writes to place[digit * threads + thread] how many positions of the tile come before this
// thread's of that digit, if those of lower digits come first. All threads of the block call it.
__device__ void find_places(const Step& step, int64_t block, int* place) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int digit = 0; digit < digits; ++digit) place[digit * threads_per_block + thread] = 0;
  step.for_each_of_thread(block,
                          [=](int64_t, int digit) { ++place[digit * threads_per_block + thread]; });
  __syncthreads();
  int* mine = place + thread * digits;  // of one digit and some threads
  int64_t sum = 0;
  for (int k = 0; k < digits; ++k) sum += mine[k];
  int before = static_cast<int>(sum_before(sum));
  for (int k = 0; k < digits; ++k) {
    const int count = mine[k];
    mine[k] = before;
    before += count;
  }
  __syncthreads();
}

// counts[digit * tiles + tile] = how many of a tile's positions have the digit
void count_digits(const Step& step, int64_t* counts) {
  const int64_t tiles = step.tiles();
  for_each_block(tiles, [=] ON_DEVICE(int64_t block) {
    SHARED(int, place, counters);
    find_places(step, block, place);
    const int digit = static_cast<int>(threadIdx.x);
    if (digit >= digits) return;
    const int64_t left = step.n - block * tile;
    const int all = left < tile ? static_cast<int>(left) : tile;
    const int end = digit + 1 < digits ? place[(digit + 1) * threads_per_block] : all;
    counts[digit * tiles + block] = end - place[digit * threads_per_block];
  });
}

// Each of n counts becomes the sum of those before it.
void sum_counts(int64_t* counts, int64_t n) {
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    const int64_t share = (n + threads_per_block - 1) / threads_per_block;
    const int64_t begin = int64_t(threadIdx.x) * share;
    const int64_t end = begin + share < n ? begin + share : n;
    int64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += counts[i];
    int64_t before = sum_before(sum);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t count = counts[i];
      counts[i] = before;
      before += count;
    }
  });
}

void move_positions(const Step& step, const int64_t* starts, int64_t* to) {
  const int64_t tiles = step.tiles();
  for_each_block(tiles, [=] ON_DEVICE(int64_t block) {
    SHARED(int, place, counters);
    SHARED(int64_t, start, digits);
    find_places(step, block, place);
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < digits)
      start[thread] = starts[thread * tiles + block] - place[thread * threads_per_block];
    __syncthreads();
    step.for_each_of_thread(block, [=](int64_t position, int digit) {
      to[start[digit] + place[digit * threads_per_block + thread]++] = position;
    });
  });
}

void write_positions(int64_t* to, int64_t n) {
  for_each_item(n, [=] ON_DEVICE(int64_t i) { to[i] = i; });
}

}  // namespace

SortedPositions::SortedPositions(const int64_t* keys, int64_t n, int64_t limit,
                                 const int64_t* start)
    : first_(n), second_(n), order_(nullptr) {
  Step step = {keys, start, n, 0};
  const Workspace<int64_t> counts(digits * step.tiles());
  for (; step.shift < 63 && (limit - 1) >> step.shift > 0; step.shift += digit_bits) {
    int64_t* to = order_ == first_.data() ? second_.data() : first_.data();
    count_digits(step, counts.data());
    sum_counts(counts.data(), digits * step.tiles());
    move_positions(step, counts.data(), to);
    step.from = order_ = to;
  }
  if (!order_) order_ = start;
  if (order_) return;
  write_positions(first_.data(), n);
  order_ = first_.data();
}

}  // namespace booster::kernels::BOOSTER_VARIANT
