// Tensors without memory. Shape, dtype and every handle stay; the numbers are not there yet, or not
// now:
//
//   Model model;
//   { const LazyInit lazy; model = VisionTransformer(options); }  // no memory so far
//
// What is made under LazyInit gets its memory and its initial numbers when something first reads or
// writes them: the same numbers as without it, whatever the order of first uses, since draws have
// their places in the random stream at once. So a model that exceeds the memory of one rank can be
// made, and then spread tensor by tensor.
//
// Numbers that are on their way to a tensor (renew_on_use) come in the same manner: its first use
// waits for them.
//
// A tensor that is spread over ranks keeps a flat part of its numbers here; the whole comes for a
// use and goes again. Reading or writing it while it is away is an error that says so.
#pragma once

#include "core/tensor/spread_columns.h"
#include "core/tensor/tensor.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace booster {

// Why a storage has no memory, and what it has instead.
struct Absence {
  // How the numbers are written when they are used, in order; each is given a tensor on the memory.
  std::vector<std::function<void(Storage& storage)>> writes;
  // What says that the numbers are away, and what to do: nobody may use them. Empty: they come by
  // themselves.
  std::string refusal;
  Tensor part;  // these elements, flat; undefined: none are kept
  ElementRange range;
  SpreadColumns spread;  // what makes the numbers, of a tensor that lies over ranks
};

// Tensors that this thread makes are without memory until they are used, as long as it lives.
class LazyInit {
 public:
  LazyInit();
  ~LazyInit();
  LazyInit(const LazyInit&) = delete;
  LazyInit& operator=(const LazyInit&) = delete;
  static bool is_active();

 private:
  bool before_;
};

inline bool has_memory(const Tensor& x) { return x.body()->storage->has_memory(); }

// Puts off what writes to x, if x has no memory so far and nobody kept it away: true.
bool put_off(const Tensor& x, const std::function<void(const Tensor& x)>& write);
// Runs write(x), now or when x is first used. It must hold no tensor, and all that it needs.
template <class F>
void write_numbers(const Tensor& x, F&& write) {
  if (has_memory(x) || !put_off(x, write)) write(x);
}

// Whether x is dense and has its storage, of the allocator, for itself.
bool fills_storage(const Tensor& x);
// x, which fills its storage, gets the numbers that `write` gives it when something first reads or
// writes it. Until then it has no memory; its version is raised now. What `write` throws is thrown
// by that use and by each later one.
void renew_on_use(const Tensor& x, const std::function<void(const Tensor& x)>& write);

// --- a tensor of which this rank keeps a part; it fills its storage
// Makes a copy of these elements the part that is kept, beside the whole: on this device, or where
// the last part was, or on x's.
void keep_part(const Tensor& x, ElementRange range, std::optional<Device> on = {});
// The part, of one dimension, and where it belongs; undefined and empty if there is none.
Tensor kept_part(const Tensor& x);
ElementRange kept_range(const Tensor& x);
// The numbers of x that stay on this rank: the part, or x itself, off the tape.
Tensor numbers_here(const Tensor& x);
// Gives the part, if there is one, the numbers of a tensor of x's shape. Error if x is a window on
// what is away.
void copy_to_part(const Tensor& x, const Tensor& from);
// The memory of the whole goes. `refusal` is what whoever reads or writes x meanwhile is told.
void give_back_memory(const Tensor& x, const std::string& refusal);
// It comes back, with any numbers in it: the caller writes them.
void take_memory(const Tensor& x);
// x becomes a tensor of this dtype of which the same part is kept, converted; the memory is away.
void convert_part_(const Tensor& x, DType dtype);

}  // namespace booster
