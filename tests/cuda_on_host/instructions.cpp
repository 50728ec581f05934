// Instructions that work on a whole warp, by the layouts of "Parallel Thread Execution
// ISA", 9.7.14: "ldmatrix" and "Matrix Fragments for mma.m16n8k16".
#include "tests/cuda_on_host/block.h"
#include "tests/cuda_on_host/fault.h"
#include "tests/cuda_on_host/halves.h"
#include "tests/cuda_on_host/include/ptx.h"
#include "tests/cuda_on_host/shared.h"
#include "tests/cuda_on_host/watch.h"

#include <cmath>
#include <cstring>

using namespace cuda_on_host;

namespace {

// A number of 16 bits of a word: the first lies in the low half.
uint16_t half_of(uint32_t word, int which) { return static_cast<uint16_t>(word >> which * 16); }

// Each lane brings the row whose address it has; word i of a lane is from matrix i.
const Gift* load_rows(const char* instruction, const void* row) {
  constexpr size_t row_bytes = 16;
  if (!is_shared_memory(row)) fault("{} reads no memory of the block", instruction);
  watch(row, row_bytes, Access::read, true);
  Gift mine = {};
  std::memcpy(mine.words, row, row_bytes);
  return gather_in_warp(instruction, mine);
}

uint16_t element(const Gift* rows, int matrix, int row, int column) {
  return half_of(rows[matrix * 8 + row].words[column / 2], column % 2);
}

// Word 0 to 3 of what a lane gives is A's, 4 and 5 B's.
struct Fragments {
  const Gift* lanes;
  uint16_t a(int row, int column) const {
    const int word = row / 8 + column / 8 * 2;
    return half_of(lanes[row % 8 * 4 + column % 8 / 2].words[word], column % 2);
  }
  uint16_t b(int row, int column) const {
    return half_of(lanes[column * 4 + row % 8 / 2].words[4 + row / 8], row % 2);
  }
};

template <float (*number)(uint16_t)>
void multiply_add(const char* instruction, float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                  uint32_t b1) {
  const Fragments all = {gather_in_warp(instruction, {{a[0], a[1], a[2], a[3], b0, b1}})};
  const int lane = lane_of_thread();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double sum = sums[i];
    for (int k = 0; k < 16; ++k)
      sum += static_cast<double>(number(all.a(row, k))) * number(all.b(k, column));
    sums[i] = static_cast<float>(sum);
  }
}

uint32_t word_of(uint16_t high, uint16_t low) { return uint32_t{high} << 16 | low; }

}  // namespace

void ptx::ldmatrix_x4(uint32_t (&words)[4], const void* row) {
  const Gift* rows = load_rows("ldmatrix", row);
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4 * 2;
  for (int i = 0; i < 4; ++i)
    words[i] = word_of(element(rows, i, g, t + 1), element(rows, i, g, t));
}

void ptx::ldmatrix_x4_trans(uint32_t (&words)[4], const void* row) {
  const Gift* rows = load_rows("ldmatrix.trans", row);
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4 * 2;
  for (int i = 0; i < 4; ++i)
    words[i] = word_of(element(rows, i, t + 1, g), element(rows, i, t, g));
}

void ptx::mma_f16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply_add<from_f16>("mma of f16", sums, a, b0, b1);
}
void ptx::mma_bf16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply_add<from_bf16>("mma of bf16", sums, a, b0, b1);
}

void ptx::cp_async_16(void* shared, const void* from, int bytes) {
  begin_copy(shared, from, bytes);
}
void ptx::cp_async_wait_all() { finish_copies(); }

float ptx::ex2_approx(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0 : y;  // keeps nan
}
uint32_t ptx::cvt_f16x2(float high, float low) { return word_of(to_f16(high), to_f16(low)); }
uint32_t ptx::cvt_bf16x2(float high, float low) { return word_of(to_bf16(high), to_bf16(low)); }
