// Many tensors cut into chunks of a fixed size, one block of work each. Hundreds of small tensors
// thus need only one parallel loop, and the order of sums depends only on the sizes.
#pragma once

#include "kernels/arguments/multi_tensor.h"
#include "kernels/launch/workspace.h"
#include "kernels/numbers/convert.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int64_t chunk_size = 16384;  // elements
// Chunks per GPU multiprocessor. With 16 bytes of each operand per thread, this number keeps its
// memory busy.
inline constexpr int chunks_at_once = 3;

// A part of one tensor.
struct TensorPart {
  int64_t tensor, begin, end;
  KERNEL_FN int64_t size() const { return end - begin; }
};

KERNEL_FN int64_t chunks_in(int64_t elements) { return (elements + chunk_size - 1) / chunk_size; }

// The tensors (TensorSpan or OptimizerSlot) and the end of each one's chunks. Plain data, for
// bodies of for_each_block; `items` and `ends` are on the device.
template <class Item>
struct Chunks {
  const Item* items;
  int64_t tensors;
  const int64_t* ends;

  // Returns the tensor of a chunk (the first that ends after it) and the position in it.
  KERNEL_FN TensorPart find(int64_t chunk) const {
    int64_t low = 0, high = tensors - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (ends[middle] > chunk)
        high = middle;
      else
        low = middle + 1;
    }
    const int64_t begin = (chunk - first_of(low)) * chunk_size;
    const int64_t size = items[low].size;
    return {low, begin, begin + chunk_size < size ? begin + chunk_size : size};
  }
  // Chunks [first_of(i), end_of(i)) belong to tensor i.
  KERNEL_FN int64_t first_of(int64_t tensor) const { return tensor > 0 ? ends[tensor - 1] : 0; }
  KERNEL_FN int64_t end_of(int64_t tensor) const { return ends[tensor]; }
};

// Cuts `tensors` items into chunks; owns the tables that the chunks point to. One at a time per
// thread.
template <class Item>
class Cut {
 public:
  Cut(const Item* items, int64_t tensors)
      : ends_(ends_of(items, tensors)),
        count_(tensors > 0 ? ends_[tensors - 1] : 0),
        items_there_(items, tensors),
        ends_there_(ends_, tensors),
        chunks_{items_there_.data(), tensors, ends_there_.data()} {}
  int64_t count() const { return count_; }
  const Chunks<Item>& chunks() const { return chunks_; }

 private:
  static const int64_t* ends_of(const Item* items, int64_t tensors) {
    static thread_local Scratch table;
    int64_t* ends = table.get<int64_t>(tensors + 1);
    int64_t end = 0;
    for (int64_t i = 0; i < tensors; ++i) ends[i] = end += chunks_in(items[i].size);
    return ends;
  }

  const int64_t* ends_;
  int64_t count_;
  Workspace<Item> items_there_;
  Workspace<int64_t> ends_there_;
  Chunks<Item> chunks_;
};

}  // namespace booster::kernels::BOOSTER_VARIANT
