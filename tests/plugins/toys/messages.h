// Sends tensors between ranks; the receiver does not know dtype and shape, since the strategy
// decides the dtype of a stage's result.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

inline constexpr size_t header_size = 8;  // dtype, number of dimensions, sizes

inline void send(const Group& group, const Tensor& tensor, int to) {
  std::vector<int64_t> header = {static_cast<int64_t>(tensor.dtype()), tensor.ndim()};
  for (int i = 0; i < tensor.ndim(); ++i) header.push_back(tensor.size(i));
  header.resize(header_size);
  group.send(header, to);
  group.send(untracked::contiguous(tensor.detach()), to);
}

inline Tensor receive(const Group& group, int from) {
  std::vector<int64_t> header(header_size);
  group.receive(header, from);
  Shape shape;
  for (int64_t i = 0; i < header[1]; ++i) shape.push_back(header[static_cast<size_t>(2 + i)]);
  const Tensor tensor = empty(shape, {.dtype = static_cast<DType>(header[0])});
  group.receive(tensor, from);
  return tensor;
}

}  // namespace booster::toys
