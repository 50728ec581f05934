// Products of bf16 by the tile registers of AMX, for the CPU variant `amx`.
//
// A tile register holds 16 rows of 64 bytes. TDPBF16PS adds the product of a tile of 16 rows x 32
// bf16 and a tile of 16 pairs x 16 columns to a tile of f32. Sizes are multiples of `tile_side`, so
// that four sums, two left and two right tiles fill the eight registers. As vdpbf16ps it takes
// subnormal numbers for 0.
#pragma once

#include "kernels/products/tile.h"

namespace booster::kernels::BOOSTER_VARIANT::tile {

constexpr int64_t tile_side = 32;  // rows and columns of a square of four sums

// True for a format whose products are computed by tile registers.
template <class F>
constexpr bool by_tiles = requires { F::by_tiles; };
// Packed operands have a multiple of this many rows, columns and numbers of a row.
template <class F>
constexpr int granule = by_tiles<F> ? int(tile_side) : lanes<typename F::Number>;

// An operand: element (row, column) is at data[column / tile_side * panel + row * stride + column %
// tile_side]. Left operands have one panel. Units of left operands are pairs along the row, those
// of right operands pairs of rows.
template <class T>
struct TiledOperand {
  T* data;
  int64_t stride;
  int64_t panel = 0;
};

// Sets (fresh) or adds sums (rows, columns) += left (rows, units) x right (units, columns).
inline void add_tiles(bool fresh, TiledOperand<float> sums, TiledOperand<const uint32_t> left,
                      TiledOperand<const uint32_t> right, int64_t rows, int64_t columns,
                      int64_t units);

// What a loop over products of the format holds: its tile registers, if it uses them.
template <class F>
struct Registers {};

#ifdef __AMX_BF16__

// Pairs in the layouts of Bf16Pairs, multiplied by tile registers.
struct Bf16Tiles : Bf16Pairs {
  static constexpr bool by_tiles = true;
};

template <>
constexpr int panel_width<Bf16Tiles> = tile_side;

// Configures this thread's tile registers as eight whole tiles. The destructor restores the
// earlier configuration, since oneDNN may rely on its own.
class TileRegisters {
 public:
  TileRegisters() {
    _tile_storeconfig(before_);
    alignas(64) static constexpr Configuration whole;
    _tile_loadconfig(&whole);
  }
  ~TileRegisters() {
    if (before_[0])
      _tile_loadconfig(before_);
    else
      _tile_release();
  }
  TileRegisters(const TileRegisters&) = delete;

 private:
  struct Configuration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  alignas(64) uint8_t before_[64];
};

// The intrinsics do not say which memory they read.
inline void finish_stores() { asm volatile("" ::: "memory"); }

inline void add_tiles(bool fresh, TiledOperand<float> sums, TiledOperand<const uint32_t> left,
                      TiledOperand<const uint32_t> right, int64_t rows, int64_t columns,
                      int64_t units) {
  const int64_t sum_bytes = 4 * sums.stride, left_bytes = 4 * left.stride,
                right_bytes = 4 * right.stride;
  finish_stores();
  for (int64_t column = 0; column < columns; column += tile_side)
    for (int64_t row = 0; row < rows; row += tile_side) {
      float* const upper = sums.data + column / tile_side * sums.panel + row * sums.stride;
      float* const lower = upper + 16 * sums.stride;
      if (fresh) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      } else {
        _tile_loadd(0, upper, sum_bytes);
        _tile_loadd(1, upper + 16, sum_bytes);
        _tile_loadd(2, lower, sum_bytes);
        _tile_loadd(3, lower + 16, sum_bytes);
      }
      const uint32_t* a = left.data + row * left.stride;
      const uint32_t* b = right.data + column / tile_side * right.panel;
      for (int64_t unit = 0; unit < units; unit += 16) {
        _tile_loadd(4, a, left_bytes);
        _tile_loadd(6, b, right_bytes);
        _tile_loadd(7, b + 16, right_bytes);
        _tile_loadd(5, a + 16 * left.stride, left_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += 16;
        b += 16 * right.stride;
      }
      _tile_stored(0, upper, sum_bytes);
      _tile_stored(1, upper + 16, sum_bytes);
      _tile_stored(2, lower, sum_bytes);
      _tile_stored(3, lower + 16, sum_bytes);
    }
  finish_stores();
}

template <>
struct Registers<Bf16Tiles> : TileRegisters {};

#endif

}  // namespace booster::kernels::BOOSTER_VARIANT::tile
