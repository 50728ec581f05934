#include "core/autograd/ops/indexing.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"

namespace booster {
namespace {

template <class Kind>
int count_of(std::initializer_list<Index> places) {
  int count = 0;
  for (const Index& place : places) count += std::holds_alternative<Kind>(place.value());
  return count;
}

// x with what each index leaves of its dimension; `dim` is the next one.
struct Walk {
  Tensor x;
  int whole;  // dimensions that no index takes
  int dim = 0;

  void operator()(int64_t position) { x = select(x, dim, position); }
  void operator()(const Slice& range) {
    x = slice(x, dim++, range.start, range.end, range.step);
  }
  void operator()(Ellipsis) { dim += whole; }
  void operator()(NewAxis) { x = unsqueeze(x, dim++); }
  void operator()(const Tensor& positions) {
    check(positions.defined() && positions.dtype() == DType::i64,
          "index: a tensor of positions must be i64; got {} (masks: where, masked_fill)",
          positions.defined() ? name_of(positions.dtype()) : "an undefined one");
    const PolicyScope inside(nullptr);
    const Tensor size = scalar(static_cast<double>(x.size(dim)), {DType::i64, x.device()});
    const Tensor from_start = where(less(positions, 0.0), add(positions, size), positions);
    Shape shape(x.shape().begin(), static_cast<size_t>(dim));
    for (const int64_t one : positions.shape()) shape.push_back(one);
    for (int i = dim + 1; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
    x = reshape(index_select(x, dim, reshape(from_start, {positions.numel()})), shape);
    dim += positions.ndim();
  }
};

}  // namespace

Tensor Tensor::operator[](std::initializer_list<Index> places) const {
  const int taken = static_cast<int>(places.size()) - count_of<Ellipsis>(places) -
                    count_of<NewAxis>(places);
  check(taken <= ndim(), "index: too many; got {} for the dimensions of {}", taken, shape());
  check(count_of<Ellipsis>(places) <= 1, "index: ellipsis stands for one place; got it twice");
  check(count_of<Tensor>(places) <= 1,
        "index: at most one tensor of positions; got {}, want gather or one after the other",
        count_of<Tensor>(places));
  Walk walk{*this, ndim() - taken};
  for (const Index& place : places) std::visit(walk, place.value());
  return walk.x;
}

}  // namespace booster
