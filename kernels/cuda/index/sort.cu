#include "kernels/cuda/index/sort.cuh"

#include "kernels/cuda/index/scan.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int digit_bits = 4, digits = 1 << digit_bits;
constexpr int run = 8;  // consecutive positions that one thread moves
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
  // Calls body(position, digit) for the positions that this thread moves.
  template <class Body>
  __device__ void for_each_of_thread(int64_t block, Body&& body) const {
    const int64_t begin = block * tile + int64_t(threadIdx.x) * run;
    for (int64_t i = begin; i < begin + run && i < n; ++i) {
      const int64_t at = position(i);
      body(at, static_cast<int>(keys[at] >> shift) & (digits - 1));
    }
  }
};

// Sets place[digit * threads + thread] = the number of the tile's positions that come before this
// thread's positions of that digit, in order of digits. All threads of the block call it.
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

// Sets counts[digit * tiles + tile] = the number of a tile's positions with the digit.
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

// Neighbouring counts that one block adds, several per thread.
constexpr int counts_of_thread = 4, counts_of_block = counts_of_thread * threads_per_block;

// This thread's counts of a block: [begin, end).
struct Share {
  int64_t begin, end;
  __device__ Share(int64_t block, int64_t of_thread, int64_t n)
      : begin(block * of_thread * threads_per_block + int64_t(threadIdx.x) * of_thread),
        end(begin + of_thread < n ? begin + of_thread : n) {}
  __device__ int64_t sum(const int64_t* counts) const {
    int64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += counts[i];
    return sum;
  }
};

// Replaces each count by the sum of those before it in its block. Returns the sum up to this
// thread's last count.
__device__ int64_t sum_share(int64_t* counts, const Share& share) {
  const int64_t sum = share.sum(counts);
  const int64_t first = sum_before(sum);
  int64_t before = first;
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t count = counts[i];
    counts[i] = before;
    before += count;
  }
  return first + sum;
}

// Replaces each of n counts by the sum of those before it.
void sum_counts(int64_t* counts, int64_t n) {
  const int64_t blocks = (n + counts_of_block - 1) / counts_of_block;
  const Workspace<int64_t> totals(blocks);
  int64_t* total = totals.data();
  for_each_block(blocks, [=] ON_DEVICE(int64_t block) {
    const Share share(block, counts_of_thread, n);
    const int64_t sum = sum_share(counts, share);
    if (threadIdx.x == threads_per_block - 1) total[block] = sum;
  });
  if (blocks == 1) return;
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    const int64_t of_thread = (blocks + threads_per_block - 1) / threads_per_block;
    sum_share(total, Share(0, of_thread, blocks));
  });
  for_each_block(blocks, [=] ON_DEVICE(int64_t block) {
    const Share share(block, counts_of_thread, n);
    for (int64_t i = share.begin; i < share.end; ++i) counts[i] += total[block];
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
