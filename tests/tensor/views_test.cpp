// Views and sizes against a plain model. Drawn arguments are often wrong. A function must refuse
// the same arguments as the model, and otherwise return the model's values.
#include "core/tensor/tensor.h"

#include "tests/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>

using namespace booster;

namespace {

using Sizes = std::vector<int64_t>;
using Values = std::vector<float>;

// A dense row-major array. A model function returns nothing for arguments that it refuses.
struct Model {
  Sizes shape;
  Values values;
};
using Answer = std::optional<Model>;

// Returns the number of elements, or nothing if it exceeds 63 bits, a size is negative or there are
// more than 8 dimensions.
std::optional<int64_t> count_of(const Sizes& shape) {
  if (shape.size() > 8) return {};
  __int128 product = 1;
  for (const int64_t size : shape) {
    if (size < 0) return {};
    product *= size;
    if (product > INT64_MAX) return {};
  }
  return static_cast<int64_t>(product);
}

std::optional<size_t> dim_of(int64_t dim, size_t dims) {
  const auto n = static_cast<int64_t>(dims);
  if (dim < -n || dim >= n) return {};
  return static_cast<size_t>(dim < 0 ? dim + n : dim);
}

// Does the same, but treats a model without dimensions as one with a single dimension.
std::optional<size_t> dim_or_only(int64_t dim, size_t dims) {
  return dim_of(dim, std::max<size_t>(dims, 1));
}

// Returns the model's value at an index.
float at(const Model& x, const Sizes& index) {
  int64_t place = 0;
  for (size_t i = 0; i < index.size(); ++i) place = place * x.shape[i] + index[i];
  return x.values[static_cast<size_t>(place)];
}

// Returns an array with value(index) at each index.
Model made(const Sizes& shape, const std::function<float(const Sizes&)>& value) {
  Model y{shape, {}};
  Sizes index(shape.size());
  for (int64_t n = *count_of(shape), i = 0; i < n; ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    y.values.push_back(value(index));
  }
  return y;
}

Answer model_reshape(const Model& x, Sizes shape) {
  const auto n = static_cast<int64_t>(x.values.size());
  const auto unknown = std::find(shape.begin(), shape.end(), -1);
  if (unknown != shape.end()) {
    *unknown = 1;
    const auto known = count_of(shape);
    if (!known || *known == 0 || n % *known != 0) return {};
    *unknown = n / *known;
  }
  const auto count = count_of(shape);
  if (!count || *count != n) return {};
  return Model{shape, x.values};
}

Answer model_expand(const Model& x, const Sizes& shape) {
  if (shape.size() < x.shape.size() || !count_of(shape)) return {};
  const size_t skip = shape.size() - x.shape.size();
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] != 1 && x.shape[i] != shape[i + skip]) return {};
  if (*count_of(shape) > 10'000) return {};  // drawn arguments that fit stay small
  return made(shape, [&](const Sizes& index) {
    Sizes from(index.begin() + static_cast<int64_t>(skip), index.end());
    for (size_t i = 0; i < from.size(); ++i)
      if (x.shape[i] == 1) from[i] = 0;
    return at(x, from);
  });
}

Answer model_narrow(const Model& x, int64_t dim, int64_t start, int64_t length) {
  const auto d = dim_of(dim, x.shape.size());
  if (!d || start < 0 || length < 0) return {};
  if (static_cast<__int128>(start) + length > x.shape[*d]) return {};
  Sizes shape = x.shape;
  shape[*d] = length;
  return made(shape, [&](Sizes index) {
    index[*d] += start;
    return at(x, index);
  });
}

Answer model_select(const Model& x, int64_t dim, int64_t index) {
  const auto d = dim_of(dim, x.shape.size());
  if (!d || index < -x.shape[*d] || index >= x.shape[*d]) return {};
  Sizes shape = x.shape;
  shape.erase(shape.begin() + static_cast<int64_t>(*d));
  return made(shape, [&](Sizes place) {
    place.insert(place.begin() + static_cast<int64_t>(*d),
                 index < 0 ? index + x.shape[*d] : index);
    return at(x, place);
  });
}

Answer model_transpose(const Model& x, int64_t a, int64_t b) {
  const auto i = dim_or_only(a, x.shape.size()), j = dim_or_only(b, x.shape.size());
  if (!i || !j) return {};
  Sizes shape = x.shape;
  if (shape.empty()) return x;
  std::swap(shape[*i], shape[*j]);
  return made(shape, [&](Sizes index) {
    std::swap(index[*i], index[*j]);
    return at(x, index);
  });
}

Answer model_unsqueeze(const Model& x, int64_t dim) {
  const auto d = dim_of(dim, x.shape.size() + 1);
  if (!d || x.shape.size() == 8) return {};
  Sizes shape = x.shape;
  shape.insert(shape.begin() + static_cast<int64_t>(*d), 1);
  return Model{shape, x.values};
}

Answer model_squeeze(const Model& x, int64_t dim) {
  const auto d = dim_or_only(dim, x.shape.size());
  if (!d) return {};
  Sizes shape = x.shape;
  if (!shape.empty() && shape[*d] == 1) shape.erase(shape.begin() + static_cast<int64_t>(*d));
  return Model{shape, x.values};
}

Answer model_sum_to(const Model& x, const Sizes& shape) {
  if (shape.size() > x.shape.size()) return {};
  const size_t skip = x.shape.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && shape[i] != x.shape[i + skip]) return {};
  Model y{shape, Values(static_cast<size_t>(*count_of(shape)))};
  made(x.shape, [&](const Sizes& index) {
    int64_t place = 0;
    for (size_t i = 0; i < shape.size(); ++i)
      place = place * shape[i] + (shape[i] == 1 ? 0 : index[i + skip]);
    y.values[static_cast<size_t>(place)] += at(x, index);
    return 0.0f;
  });
  return y;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  // Returns mostly small numbers, sometimes extreme ones.
  int64_t number() {
    const int64_t odd[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1, int64_t{1} << 62,
                           int64_t{1} << 32, -9, 9};
    return between(0, 9) ? between(-3, 4) : odd[between(0, 7)];
  }
  Sizes sizes(int64_t low, int64_t high, int64_t most_dims) {
    Sizes shape(static_cast<size_t>(between(0, most_dims)));
    for (int64_t& size : shape) size = between(low, high);
    return shape;
  }
  // Returns a shape to request: near the given one, or arbitrary.
  Sizes asked(const Sizes& from) {
    Sizes shape = between(0, 2) ? from : sizes(-1, 6, 4);
    if (between(0, 1)) shape.insert(shape.begin(), between(0, 3));
    for (int64_t& size : shape) {
      if (!between(0, 3)) size = between(-1, 6);
      if (!between(0, 30)) size = number();
    }
    if (between(0, 3) == 0 && shape.size() > 1) {  // as many elements, with two dimensions merged
      const int64_t merged = shape[0] >= 0 && shape[0] < 9 ? shape[0] : 1;
      shape.erase(shape.begin());
      if (shape[0] > 0 && shape[0] < 99) shape[0] *= merged;
    }
    return shape;
  }

 private:
  std::mt19937_64 random_;
};

// Returns a view with the same values: dense or with gaps, permuted or broadcast.
Tensor as_tensor(Draw& draw, const Model& x) {
  Tensor dense = from_vector<float>(x.values, x.shape);
  if (x.shape.empty() || draw.between(0, 1)) return dense;
  const int64_t d = draw.between(0, static_cast<int64_t>(x.shape.size()) - 1);
  Tensor turned = untracked::transpose(dense, d, 0).clone();
  return untracked::transpose(turned, d, 0);
}

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += std::to_string(size) + " ";
  return "(" + text + ")";
}

void compare(const std::string& call, const Answer& want, const std::function<Tensor()>& function) {
  Tensor got;
  std::string problem;
  try {
    got = function();
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!want) {
    CHECK_MESSAGE(!problem.empty(), call);
    return;
  }
  REQUIRE_MESSAGE(problem == "", call);
  CHECK_MESSAGE(got.shape().to_vector() == want->shape, call);
  CHECK_MESSAGE(got.to_vector<float>() == want->values, call);
}

void play(Draw& draw, const Model& x, const Tensor& t) {
  const std::string of = " of " + text_of(x.shape);
  const int64_t a = draw.number(), b = draw.number(), c = draw.number();
  const Sizes shape = draw.asked(x.shape);
  const std::string numbers = text_of({a, b, c}), sizes = text_of(shape);
  using namespace untracked;
  compare("reshape " + sizes + of, model_reshape(x, shape), [&] { return reshape(t, shape); });
  const auto stretched = model_expand(x, shape);
  const auto count = count_of(shape);
  if (stretched || !count || *count <= 10'000)
    compare("expand " + sizes + of, stretched, [&] { return expand(t, shape); });
  compare("narrow " + numbers + of, model_narrow(x, a, b, c), [&] { return narrow(t, a, b, c); });
  compare("select " + numbers + of, model_select(x, a, b), [&] { return select(t, a, b); });
  compare("transpose " + numbers + of, model_transpose(x, a, b),
          [&] { return transpose(t, a, b); });
  compare("unsqueeze " + numbers + of, model_unsqueeze(x, a), [&] { return unsqueeze(t, a); });
  compare("squeeze " + numbers + of, model_squeeze(x, a), [&] { return squeeze(t, a); });
  compare("sum_to " + sizes + of, model_sum_to(x, shape), [&] { return sum_to(t, shape); });
}

}  // namespace

TEST_CASE("views of random shapes give the numbers of a plain model, and refuse what it refuses") {
  for (const unsigned seed : testing::draws(4000)) {
    Draw draw(seed);
    const Sizes shape = draw.sizes(draw.between(0, 4) ? 1 : 0, 3, seed % 10 ? 4 : 8);
    float next = 0;
    const Model x = made(shape, [&](const Sizes&) { return ++next; });
    play(draw, x, as_tensor(draw, x));
  }
}

TEST_CASE("a shape whose bytes 64 bits do not count is refused, and never allocated small") {
  const int64_t big = int64_t{1} << 62, half = int64_t{1} << 32;
  for (const Sizes& shape : std::vector<Sizes>{{big, 4}, {half, half}, {half, half, 0}, {0, big, 4},
                                               {big, 2}, {INT64_MAX}, {big - 1}, {-1}, {2, -3},
                                               {INT64_MIN}, {-1, -1}}) {
    const std::string text = text_of(shape);
    CHECK_THROWS_AS_MESSAGE(booster::empty(shape), Error, text);
    CHECK_THROWS_AS_MESSAGE(zeros(shape, {.dtype = DType::f64}), Error, text);
    float number = 0;
    CHECK_THROWS_AS_MESSAGE(from_memory(&number, shape, {}), Error, text);
    CHECK_THROWS_AS_MESSAGE(from_vector<float>({}, shape), Error, text);
    CHECK_THROWS_AS_MESSAGE(untracked::expand(scalar(1), shape), Error, text);
    if (shape != Sizes{-1})
      CHECK_THROWS_AS_MESSAGE(untracked::reshape(scalar(1), shape), Error, text);
  }
  CHECK_THROWS_AS(Shape({half, half}).numel(), Error);
  CHECK_THROWS_AS(Shape({half, half, 2}).dense_strides(), Error);
  CHECK_THROWS_AS(arange(INT64_MAX), Error);
  Sizes too_many(8, 1);
  too_many.push_back(1);
  CHECK_THROWS_WITH_AS(booster::empty(too_many),
                       doctest::Contains("too many dimensions; got 9, want at most 8"), Error);
  CHECK_THROWS_AS(Shape().back(), Error);
  CHECK_THROWS_AS(from_memory(nullptr, {2}, {}), Error);
}

TEST_CASE("a view that leaves its storage is refused") {
  const Tensor x = zeros({4, 6});
  CHECK_NOTHROW(untracked::strided(x, {2, 3}, {6, 2}, 7));
  CHECK_NOTHROW(untracked::strided(x, {4}, {-6}, 18));
  CHECK_NOTHROW(untracked::strided(x, {0}, {1}, 24));
  CHECK_THROWS_WITH_AS(untracked::strided(x, {2, 3}, {6, 2}, 14),
                       doctest::Contains("strided: the view exceeds the storage"), Error);
  CHECK_THROWS_AS(untracked::strided(x, {1}, {1}, -1), Error);
  CHECK_THROWS_AS(untracked::strided(x, {5}, {-6}, 18), Error);
  CHECK_THROWS_AS(untracked::strided(x, {3}, {int64_t{1} << 62}, 0), Error);
  CHECK_THROWS_AS(untracked::strided(x, {2}, {INT64_MAX}, 5), Error);
  CHECK_THROWS_AS(untracked::strided(x, {2, 2}, {1}, 0), Error);
}

TEST_CASE("reshape shows the shape that was asked for, and why no size fits -1") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH(untracked::reshape(x, {4, -1}),
                    "reshape: no size is possible for -1; got (2, 3) to (4, -1), want a multiple "
                    "of 4 elements instead of 6");
  CHECK_THROWS_WITH(untracked::reshape(x, {0, -1}),
                    "reshape: -1 is ambiguous together with a size of 0; got (2, 3) to (0, -1)");
  CHECK_THROWS_WITH(untracked::reshape(x, {-1, 2, -1}),
                    "reshape: more than one size is -1; got (-1, 2, -1)");
  CHECK_THROWS_WITH(untracked::reshape(x, {-1, -2}), "reshape: negative size; got (-1, -2)");
  CHECK(untracked::reshape(zeros({0, 3}), {-1, 3}).shape() == Shape{0, 3});
}

namespace {

// Returns a drawn window of a permuted tensor that counts up from 0.
Tensor drawn_window(std::mt19937& draw, const Sizes& shape, DType dtype) {
  std::vector<int> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::shuffle(order.begin(), order.end(), draw);
  Sizes whole(shape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    whole[static_cast<size_t>(order[i])] = shape[i] + static_cast<int64_t>(draw() % 3);
  const int64_t count = count_of(whole).value();
  Tensor x = untracked::permute(
      untracked::reshape(untracked::cast(arange(count), dtype), Shape(whole)), order);
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t size = shape[static_cast<size_t>(i)], spare = x.size(i) - size;
    x = untracked::narrow(x, i, spare > 0 ? static_cast<int64_t>(draw()) % (spare + 1) : 0, size);
  }
  return x;
}

// Returns the element at row-major position `at`, by the strides.
template <class T>
T& element(const Tensor& x, int64_t at) {
  int64_t place = 0;
  for (int i = x.ndim() - 1; i >= 0; --i) {
    place += at % x.size(i) * x.strides()[i];
    at /= x.size(i);
  }
  return static_cast<T*>(x.data())[place];
}

template <class From, class To>
void check_copy(std::mt19937& draw, const Sizes& shape) {
  const Tensor from = drawn_window(draw, shape, dtype_of<From>());
  Tensor to = drawn_window(draw, shape, dtype_of<To>());
  Tensor sum = drawn_window(draw, shape, DType::f32);
  const std::vector<float> before = sum.to_vector<float>();
  to.copy_(from);
  sum.add_(from);
  bool same = true;
  for (int64_t i = 0; i < from.numel(); ++i) {
    const From number = element<From>(from, i);
    same &= element<To>(to, i) == static_cast<To>(number);
    same &= element<float>(sum, i) == before[static_cast<size_t>(i)] + static_cast<float>(number);
  }
  CHECK_MESSAGE(same, Shape(shape).to_string());
}

}  // namespace

// Short runs, long runs, and more runs than one thread takes at a time.
TEST_CASE("drawn strided copies and sums are those of loops over their elements") {
  const int64_t sizes[] = {1, 2, 3, 5, 16, 33, 130, 600};
  for (const unsigned round : testing::draws(150)) {
    std::mt19937 draw(round);
    Sizes shape;
    for (int64_t count = 1; shape.size() < 4 && count < 5000; count *= shape.back())
      shape.push_back(sizes[draw() % (count < 100 ? std::size(sizes) : 5)]);
    switch (round % 4) {
      case 0: check_copy<float, float>(draw, shape); break;
      case 1: check_copy<int64_t, int64_t>(draw, shape); break;
      case 2: check_copy<uint8_t, uint8_t>(draw, shape); break;
      default: check_copy<int32_t, float>(draw, shape);
    }
  }
}
