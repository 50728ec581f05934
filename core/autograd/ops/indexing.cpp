#include "core/autograd/functions.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/ops/index_ops.h"

namespace booster {
namespace {

bool is_mask(const Tensor& places) { return places.defined() && places.dtype() == DType::boolean; }

// Returns how many dimensions of x an index takes.
int dims_of(const Index& index) {
  if (const Tensor* places = std::get_if<Tensor>(&index.value()))
    return is_mask(*places) ? places->ndim() : 1;
  const bool takes_none = std::holds_alternative<Ellipsis>(index.value()) ||
                          std::holds_alternative<NewAxis>(index.value());
  return takes_none ? 0 : 1;
}

// Returns the positions of a mask's true elements in row-major order. Waits for the mask's device.
Tensor true_positions(const Tensor& mask) {
  std::vector<int64_t> positions;
  const std::vector<uint8_t> truths = mask.to_vector<uint8_t>();
  for (size_t i = 0; i < truths.size(); ++i)
    if (truths[i]) positions.push_back(static_cast<int64_t>(i));
  return from_vector(positions, {static_cast<int64_t>(positions.size())}).to(mask.device());
}

template <class Kind>
int count_of(std::initializer_list<Index> places) {
  int count = 0;
  for (const Index& place : places) count += std::holds_alternative<Kind>(place.value());
  return count;
}

// x after the indices applied so far; `dim` is the next dimension.
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
  void operator()(const Tensor& places) {
    const PolicyScope inside(nullptr);
    is_mask(places) ? keep_true(places) : take(places);
  }

  void keep_true(const Tensor& mask) {
    const int end = dim + mask.ndim();
    const Shape masked(x.shape().begin() + dim, static_cast<size_t>(mask.ndim()));
    check(mask.ndim() > 0 && mask.shape() == masked,
          "index: the mask has a wrong shape; got {} for the dimensions from {} on of {}",
          mask.shape(), dim, x.shape());
    x = index_select(flatten(x, dim, end - 1), dim, true_positions(mask));
    ++dim;
  }

  void take(const Tensor& positions) {
    check(positions.defined(), "index: a tensor is undefined");
    check(positions.dtype() == DType::i64 || positions.dtype() == DType::i32,
          "index: a tensor must hold positions (i64 or i32) or be a mask (bool); got {}",
          name_of(positions.dtype()));
    x = slices_at("index", x, dim, positions);
    dim += positions.ndim();
  }
};

}  // namespace

Tensor Tensor::operator[](std::initializer_list<Index> places) const {
  int taken = 0;
  for (const Index& place : places) taken += dims_of(place);
  check(taken <= ndim(), "index: too many; got {} for the dimensions of {}", taken, shape());
  check(count_of<Ellipsis>(places) <= 1, "index: more than one ellipsis; got it twice");
  check(count_of<Tensor>(places) <= 1,
        "index: more than one tensor; got {}, want one at a time, or gather",
        count_of<Tensor>(places));
  Walk walk{*this, ndim() - taken};
  for (const Index& place : places) std::visit(walk, place.value());
  return walk.x;
}

Tensor Tensor::operator[](const Tensor& places) const {
  return (*this)[std::initializer_list<Index>{places}];
}

}  // namespace booster
