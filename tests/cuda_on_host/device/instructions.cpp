// Emulates warp-wide instructions, with the layouts of "Parallel Thread Execution ISA", 9.7.14:
// "ldmatrix" and "Matrix Fragments for mma.m16n8k16".
#include "tests/cuda_on_host/device/block.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/halves.h"
#include "tests/cuda_on_host/device/shared.h"
#include "tests/cuda_on_host/device/watch.h"
#include "tests/cuda_on_host/include/ptx.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace cuda_on_host;

namespace {

// Returns a 16-bit half of a word; the first one is the low half.
uint16_t half_of(uint32_t word, int which) { return static_cast<uint16_t>(word >> which * 16); }

// Each lane loads the row at its address; word i of a lane comes from matrix i.
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

// The first 8 values that a lane gives belong to A, the next 4 to B.
struct Fragments {
  const Gift* lanes;
  float a(int row, int column) const {
    const int word = row / 8 + column / 8 * 2;
    return number(row % 8 * 4 + column % 8 / 2, word * 2 + column % 2);
  }
  float b(int row, int column) const {
    return number(column * 4 + row % 8 / 2, 8 + row / 8 * 2 + row % 2);
  }
  float number(int lane, int which) const { return std::bit_cast<float>(lanes[lane].words[which]); }
};

template <float (*decoded)(uint16_t)>
void multiply_add(const char* instruction, float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                  uint32_t b1) {
  const uint32_t words[] = {a[0], a[1], a[2], a[3], b0, b1};
  Gift mine;
  for (int i = 0; i < 12; ++i)
    mine.words[i] = std::bit_cast<uint32_t>(decoded(half_of(words[i / 2], i % 2)));
  const Fragments all = {gather_in_warp(instruction, mine)};
  // Multiplies rows g and g + 8 of A by columns t and t + 1 of B.
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4 * 2;
  double products[4] = {sums[0], sums[1], sums[2], sums[3]};
  for (int k = 0; k < 16; ++k) {
    const double rows[] = {all.a(g, k), all.a(g + 8, k)};
    const double columns[] = {all.b(k, t), all.b(k, t + 1)};
    for (int i = 0; i < 4; ++i) products[i] += rows[i / 2] * columns[i % 2];
  }
  for (int i = 0; i < 4; ++i) sums[i] = static_cast<float>(products[i]);
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
float ptx::larger(float x, float y) { return std::fmax(x, y); }
uint32_t ptx::cvt_f16x2(float high, float low) { return word_of(to_f16(high), to_f16(low)); }
uint32_t ptx::cvt_bf16x2(float high, float low) { return word_of(to_bf16(high), to_bf16(low)); }
