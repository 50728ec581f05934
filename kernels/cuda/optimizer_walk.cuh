// Walks a part of a parameter with a block of GPU threads: by groups of neighbouring elements that
// fill 16 bytes of the compute type (four of f32), one per thread and turn.
//
// One access reads or writes a group of each array of a slot (16 bytes of f32, 8 of f16 and bf16)
// if its address allows it. Otherwise, and at the part's end, elements are accessed singly. Each
// pointer is checked separately: in a range of a parameter the states begin at an aligned address,
// but values, gradients and copies may not. Neither the assignment of elements to threads nor any
// sum depends on an address.
#pragma once

#include "kernels/cuda/element_group.cuh"
#include "kernels/optimizer/optimizer_math.h"
#include "kernels/optimizer/update_rounding.h"
#include "kernels/walks/chunks.h"
#include "kernels/walks/row_sums.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns make(), which one thread computes for its block, because powers in f64 are slow on a GPU.
// All threads of the block call it, once.
template <class Value, class Make>
__device__ Value once_per_block(Make&& make) {
  static_assert(__is_trivially_copyable(Value));
  constexpr int count = (sizeof(Value) + 7) / 8;
  union Words {
    uint64_t word[count];
    Value value;
    __device__ Words() {}
  };
  SHARED(uint64_t, shared, count);
  Words own;
  if (first_lane()) {
    own.value = make();
    for (int i = 0; i < count; ++i) shared[i] = own.word[i];
  }
  __syncthreads();
  for (int i = 0; i < count; ++i) own.word[i] = shared[i];
  return own.value;
}

// 16 bytes of the compute type.
template <class C>
inline constexpr int group_size = sizeof(uint4) / sizeof(C);

template <int size>
__device__ int64_t groups_in(const TensorPart& part) {
  return (part.size() + size - 1) / size;
}
template <int size>
__device__ ElementGroup group_of(const TensorPart& part, int64_t i) {
  const int64_t first = part.begin + i * size, rest = part.end - first;
  return {first, rest < size ? static_cast<int>(rest) : size};
}

// A group of a dtype that is known at run time. Conversion waits for the values, so a thread
// converts after it has started all its loads. Loads need only the size of an element.
template <class C>
class Fetched {
 public:
  static constexpr int size = group_size<C>;

  __device__ Fetched(const void* run, DType dtype, ElementGroup group)
      : run_(run), dtype_(dtype), group_(group) {
    if (dtype == DType::f32)
      fetch<uint32_t>();
    else if (dtype != DType::f64)
      fetch<uint16_t>();
    else if constexpr (sizeof(C) == sizeof(double))
      fetch<uint64_t>();
  }
  __device__ void convert_to(C (&to)[size]) const {
    visit_floating(dtype_, [&]<class T>(T*) {
#pragma unroll
      for (int i = 0; i < size; ++i) {
        if constexpr (sizeof(T) <= sizeof(C)) {
          const T element = __builtin_bit_cast(T, bits<sizeof(T)>(i));
          to[i] = load<C>(&element);
        } else if (i < group_.count) {
          to[i] = load<C>(static_cast<const T*>(run_) + group_.first + i);
        }
      }
    });
  }

 private:
  template <class Bits>
  __device__ void fetch() {
    using Whole = Pack<Bits, size>;
    const Bits* p = static_cast<const Bits*>(run_) + group_.first;
    if (group_.count == size && Whole::fits(p)) {
      Whole whole;
      whole.load(p);
      __builtin_memcpy(word_, whole.word, sizeof whole.word);
      return;
    }
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const uint64_t element = i < group_.count ? p[i] : 0;
      const int bit = i * 8 * int(sizeof(Bits));
      word_[bit / 32] |= static_cast<uint32_t>(element << bit % 32);
      if (sizeof(Bits) == 8) word_[bit / 32 + 1] = static_cast<uint32_t>(element >> 32);
    }
  }
  template <int bytes>
  __device__ auto bits(int i) const {
    const uint32_t low = word_[i * bytes / 4];
    if constexpr (bytes == 2)
      return static_cast<uint16_t>(low >> i % 2 * 16);
    else if constexpr (bytes == 4)
      return low;
    else
      return uint64_t(word_[i * 2 + 1]) << 32 | low;
  }

  const void* run_;
  DType dtype_;
  ElementGroup group_;
  uint32_t word_[4] = {};
};

// The values of a group that an update reads and writes.
template <int states, class C>
struct SlotGroup {
  static constexpr int size = group_size<C>;

  __device__ SlotGroup(const OptimizerSlot& slot, ElementGroup of, bool needs_gradient)
      : group(of) {
    const Fetched<C> values(slot.value, slot.value_dtype, group);
    if (states > 0) read_group(first, slot.state1, group);
    if (states > 1) read_group(second, slot.state2, group);
    if (states > 2) read_group(third, slot.state3, group);
    if (needs_gradient) Fetched<C>(slot.grad, slot.grad_dtype, group).convert_to(gradient);
    values.convert_to(value);
  }
  __device__ void write_states(const OptimizerSlot& slot) const {
    if (states > 0) write_group(slot.state1, group, first);
    if (states > 1) write_group(slot.state2, group, second);
    if (states > 2) write_group(slot.state3, group, third);
  }

  ElementGroup group;
  C value[size] = {}, gradient[size] = {}, first[size] = {}, second[size] = {}, third[size] = {};
};

// Stores new values with the slot's rounding; `key` is the key of its noise.
template <class C, int size>
__device__ void store_values(const OptimizerSlot& slot, uint64_t key, ElementGroup group,
                             const C (&value)[size]) {
  if (slot.rounding == UpdateRounding::nearest)
    return store_group(slot.value, slot.value_dtype, group, value);
  const bool is_kahan = slot.rounding == UpdateRounding::kahan;
  bf16 stored[size] = {}, lost[size] = {};
  if (is_kahan) {
    read_group(stored, slot.value, group);
    read_group(lost, slot.compensation, group);
  }
#pragma unroll
  for (int i = 0; i < size; ++i) {
    const float next = float(value[i]);
    if (is_kahan)
      add_compensated(stored[i], next - to_float(stored[i]), lost[i]);
    else
      stored[i] = round_stochastic(next, noise_bits(key, slot.begin + group.first + i));
  }
  write_group(slot.value, group, stored);
  if (is_kahan) write_group(slot.compensation, group, lost);
}

// Calls body(value, gradient, state1, state2, state3) for the elements of a part. Stores the
// resulting values, also in the working copy, and in a step the states.
template <UpdatePass pass, int states, class C, class Body>
__device__ void update_values(const OptimizerSlot& slot, const TensorPart& part, Body&& body) {
  constexpr bool is_step = pass == UpdatePass::step;
  constexpr int size = group_size<C>;
  const bool has_noise = slot.rounding == UpdateRounding::stochastic;
  const uint64_t key = has_noise ? noise_key(slot.noise_seed, step_of(slot)) : 0;
  for_each_lane(groups_in<size>(part), [&](int64_t k) {
    SlotGroup<states, C> of(slot, group_of<size>(part, k), is_step);
#pragma unroll
    for (int i = 0; i < size; ++i)
      body(of.value[i], of.gradient[i], of.first[i], of.second[i], of.third[i]);
    if (is_step) of.write_states(slot);
    store_values(slot, key, of.group, of.value);
    if (slot.copy) store_group(slot.copy, slot.copy_dtype, of.group, of.value);
  });
}

// Computes LAMB's first phase: moments, and the squared norms of value and update in squares[0] and
// [1].
template <class C>
__device__ void update_moments(const OptimizerSlot& slot, const TensorPart& part,
                               GradientFactor<C> factor, const LambUpdate<C> lamb,
                               double* squares) {
  constexpr int size = group_size<C>;
  const auto square = [](C x) { return double(x) * double(x); };
  double of_update = 0;
  const double of_value = sum_of<double>(groups_in<size>(part), [&](int64_t k) {
    SlotGroup<2, C> of(slot, group_of<size>(part, k), true);
    double of_group = 0;
#pragma unroll
    for (int i = 0; i < size; ++i) {
      lamb.moments.blend(factor(of.gradient[i]) / lamb.divisor, of.first[i], of.second[i]);
      if (i >= of.group.count) continue;
      of_update += square(lamb.update(of.value[i], of.first[i], of.second[i]));
      of_group += square(lamb.kept * of.value[i]);
    }
    of.write_states(slot);
    return of_group;
  });
  const double all_of_update = fold_lanes(of_update, [](double a, double b) { return a + b; });
  if (!first_lane()) return;
  squares[0] = of_value;
  squares[1] = all_of_update;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
