#include "tests/cuda_on_host/nccl/nccl_reduce.h"

#include "tests/cuda_on_host/device/halves.h"

#include <cmath>
#include <cstring>

namespace cuda_on_host {
namespace {

// An element type as stored in memory, and the type of its computations.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T stored) { return stored; }
  static T store(T computed) { return computed; }
};
struct Half {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t stored) { return from_f16(stored); }
  static uint16_t store(float computed) { return to_f16(computed); }
};
struct Brain {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t stored) { return from_bf16(stored); }
  static uint16_t store(float computed) { return to_bf16(computed); }
};

template <class T>
T combined(T a, T b, ncclRedOp_t operation) {
  switch (operation) {
    case ncclProd: return static_cast<T>(a * b);
    case ncclMax: return a < b || a != a ? b : a;  // ignores nan
    case ncclMin: return b < a || a != a ? b : a;
    default: return static_cast<T>(a + b);
  }
}

template <class Type>
std::vector<char> reduce(const std::vector<std::vector<char>>& sources, ncclRedOp_t operation) {
  using Stored = typename Type::Stored;
  using Computed = typename Type::Computed;
  const size_t ranks = sources.size(), count = sources[0].size() / sizeof(Stored);
  std::vector<char> result(sources[0].size());
  const Computed share =
      Type::load(Type::store(static_cast<Computed>(1 / static_cast<double>(ranks))));
  const auto number = [&](size_t rank, size_t i) {
    Stored stored;
    std::memcpy(&stored, sources[rank].data() + i * sizeof stored, sizeof stored);
    const Computed value = Type::load(stored);
    return operation == ncclAvg ? Type::load(Type::store(value * share)) : value;
  };
  for (size_t i = 0; i < count; ++i) {
    const size_t first = i * ranks / count + 1;  // the first rank of the chunk's ring
    Computed sum = number(first % ranks, i);
    for (size_t step = 1; step < ranks; ++step)
      sum = Type::load(Type::store(combined(sum, number((first + step) % ranks, i), operation)));
    const Stored stored = Type::store(sum);
    std::memcpy(result.data() + i * sizeof stored, &stored, sizeof stored);
  }
  return result;
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  constexpr size_t sizes[] = {1, 4, 8, 2, 2, 4, 8};
  return sizes[type];
}

std::vector<char> reduce_around_ring(const std::vector<std::vector<char>>& sources,
                                     ncclDataType_t type, ncclRedOp_t operation) {
  switch (type) {
    case ncclUint8: return reduce<Plain<uint8_t>>(sources, operation);
    case ncclInt32: return reduce<Plain<int32_t>>(sources, operation);
    case ncclInt64: return reduce<Plain<int64_t>>(sources, operation);
    case ncclFloat16: return reduce<Half>(sources, operation);
    case ncclBfloat16: return reduce<Brain>(sources, operation);
    case ncclFloat32: return reduce<Plain<float>>(sources, operation);
    default: return reduce<Plain<double>>(sources, operation);
  }
}

}  // namespace cuda_on_host
