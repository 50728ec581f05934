// Random bracket indices into tensors, against a plain model that lists the kept positions of each
// dimension.
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"
#include "tests/autograd/gradient_check.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace booster;

namespace {

// What an index keeps of a dimension: positions, and their sizes in the result.
struct Kept {
  std::vector<int64_t> places;
  std::vector<int64_t> sizes;
};

// Draws indices, and gives the result of each by Python's rules.
class Drawn {
 public:
  explicit Drawn(uint32_t seed) : engine_(seed) {
    const int dims = 1 + below(3);
    for (int d = 0; d < dims; ++d) shape.push_back(1 + below(5));
    const int named = below(dims + 1);
    const int dots = below(2) ? below(named + 1) : -1;
    for (int d = 0, k = 0; k <= named; ++k) {
      if (k == dots) {
        indices.emplace_back(ellipsis);
        for (int i = 0; i < dims - named; ++i) whole(d++);
      }
      if (below(4) == 0) {
        indices.emplace_back(new_axis);
        kept.push_back({{}, {1}});
      }
      if (k < named)
        draw(d++);
      else
        while (d < dims) whole(d++);
    }
  }

  std::vector<int64_t> shape;
  std::vector<Index> indices;
  std::vector<Kept> kept;  // a new axis has no positions

 private:
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }
  int64_t around(int64_t size) { return below(static_cast<int>(2 * size + 5)) - size - 2; }

  void whole(int d) { take_range(d, 0, shape[static_cast<size_t>(d)], 1); }

  void take_range(int d, int64_t from, int64_t to, int64_t step) {
    const int64_t size = shape[static_cast<size_t>(d)];
    const auto inside = [size](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    };
    Kept one;
    for (int64_t at = inside(from); at < inside(to); at += step) one.places.push_back(at);
    one.sizes = {static_cast<int64_t>(one.places.size())};
    kept.push_back(one);
  }

  void draw(int d) {
    const int64_t size = shape[static_cast<size_t>(d)];
    const int kind = below(has_tensor_ ? 2 : 3);
    if (kind == 0) {
      const int64_t at = below(static_cast<int>(size));
      indices.emplace_back(below(2) ? at : at - size);
      kept.push_back({{at}, {}});
    } else if (kind == 1) {
      const int64_t from = around(size), to = around(size), step = 1 + below(3);
      const bool open_start = below(3) == 0, open_end = below(3) == 0;
      const auto given = [](bool open, int64_t at) {
        return open ? std::optional<int64_t>() : std::optional<int64_t>(at);
      };
      indices.emplace_back(Slice(given(open_start, from), given(open_end, to), step));
      take_range(d, open_start ? 0 : from, open_end ? size : to, step);
    } else {
      has_tensor_ = true;
      Kept one{{}, {1 + below(3), below(3)}};
      std::vector<int64_t> written;
      for (int64_t i = 0; i < one.sizes[0] * one.sizes[1]; ++i) {
        one.places.push_back(below(static_cast<int>(size)));
        written.push_back(below(2) ? one.places.back() : one.places.back() - size);
      }
      indices.emplace_back(from_vector(written, one.sizes));
      kept.push_back(one);
    }
  }

  std::mt19937 engine_;
  bool has_tensor_ = false;
};

// Calls operator[], which takes a braced list, with `n` indices.
Tensor at(const Tensor& x, const std::vector<Index>& i) {
  switch (i.size()) {
    case 0: return x[std::initializer_list<Index>{}];
    case 1: return x[std::initializer_list<Index>{i[0]}];
    case 2: return x[{i[0], i[1]}];
    case 3: return x[{i[0], i[1], i[2]}];
    case 4: return x[{i[0], i[1], i[2], i[3]}];
    case 5: return x[{i[0], i[1], i[2], i[3], i[4]}];
    case 6: return x[{i[0], i[1], i[2], i[3], i[4], i[5]}];
    case 7: return x[{i[0], i[1], i[2], i[3], i[4], i[5], i[6]}];
    case 8: return x[{i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7]}];
    default: FAIL("too many indices drawn"); return {};
  }
}

}  // namespace

TEST_CASE("indices in brackets keep what Python's do, and their gradients go back there") {
  size_t empty_results = 0, tensors = 0;
  const std::vector<unsigned> seeds = testing::draws(400);
  for (const unsigned seed : seeds) {
    const Drawn drawn(seed);
    CAPTURE(seed);
    Shape result;
    std::vector<int64_t> numbers = {0};  // of the kept elements, row-major
    size_t d = 0;
    for (const Kept& kept : drawn.kept) {
      for (const int64_t size : kept.sizes) result.push_back(size);
      const bool is_new = kept.places.empty() && kept.sizes == std::vector<int64_t>{1};
      if (is_new) continue;
      std::vector<int64_t> next;
      for (const int64_t number : numbers)
        for (const int64_t place : kept.places) next.push_back(number * drawn.shape[d] + place);
      numbers = next;
      ++d;
    }
    REQUIRE(d == drawn.shape.size());
    const int64_t n = Shape(drawn.shape).numel();
    const Tensor x = reshape(arange(n, {.dtype = DType::f64}), drawn.shape).requires_grad_();
    const Tensor y = at(x, drawn.indices);
    CHECK(y.shape() == result);
    CHECK(y.to_vector<int64_t>() == numbers);
    empty_results += numbers.empty();
    for (const Index& index : drawn.indices)
      tensors += std::holds_alternative<Tensor>(index.value());
    const Tensor g = uniform(y.shape(), 0, 1, {.dtype = DType::f64});
    if (!y.requires_grad()) continue;
    backward(y, {.grad = g});
    std::vector<double> wanted(static_cast<size_t>(n), 0.0);
    const auto given = g.to_vector<double>();
    for (size_t i = 0; i < numbers.size(); ++i) wanted[static_cast<size_t>(numbers[i])] += given[i];
    const auto got = x.grad().to_vector<double>();
    for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]));
  }
  CHECK(empty_results > seeds.size() / 40);
  CHECK(tensors > seeds.size() / 8);
}

TEST_CASE("a mask keeps what is true, of as many dimensions as it has") {
  for (const unsigned seed : testing::draws(60)) {
    CAPTURE(seed);
    Generator generator(seed);
    const Tensor x = uniform({2, 3, 4}, -1, 1, {.dtype = DType::f64}, generator).requires_grad_();
    const int first = seed % 2, count = 1 + static_cast<int>(seed / 2) % (3 - first);
    std::vector<int64_t> sizes;
    for (int d = first; d < first + count; ++d) sizes.push_back(x.size(d));
    const Tensor mask = greater(uniform(sizes, -1, seed % 5 == 0 ? 0 : 1, {}, generator), 0.0);
    const Tensor y = first == 0 ? x[mask] : x[{Slice(), mask}];
    const auto truth = mask.to_vector<uint8_t>();
    const auto numbers = x.to_vector<double>();
    const int64_t middle = mask.numel(), outer = first == 0 ? 1 : 2, inner = 24 / outer / middle;
    std::vector<double> want, slope(24, 0.0);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t m = 0; m < middle; ++m)
        for (int64_t i = 0; i < inner && truth[static_cast<size_t>(m)]; ++i) {
          const auto at = static_cast<size_t>((o * middle + m) * inner + i);
          want.push_back(numbers[at]);
          slope[at] = 1;
        }
    CHECK(y.to_vector<double>() == want);
    CHECK(y.ndim() == 4 - count);
    sum(y).backward();
    CHECK(x.grad().to_vector<double>() == slope);
  }
}

TEST_CASE("a part by brackets can be differentiated twice") {
  const Tensor x = testing::random_f64({4, 3}).requires_grad_();
  const Tensor a = x[{Slice(1, {}, 2), ellipsis}], b = x[{Slice({}, 2), new_axis}];
  const Tensor y = sum(mul(a, b));
  const auto first = gradients(y, {x}, {.create_graph = true});
  sum(mul(first[0], first[0])).backward();
  CHECK(x.grad().defined());
}

TEST_CASE("indices that do not fit say why") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS((x[{0, 1, 2}]), doctest::Contains("too many; got 3"), Error);
  CHECK_THROWS_WITH_AS((x[{0, 3}]), doctest::Contains("select"), Error);
  CHECK_THROWS_WITH_AS((x[{ellipsis, ellipsis}]), doctest::Contains("twice"), Error);
  CHECK_THROWS_WITH_AS((x[{Slice(0, 2, 0), 0}]), doctest::Contains("step"), Error);
  CHECK_THROWS_WITH_AS((x[{Slice(), greater(x, 0.0)}]), doctest::Contains("too many"), Error);
  CHECK_THROWS_WITH_AS(x[greater(zeros({3}), 0.0)], doctest::Contains("the mask has a wrong shape"),
                       Error);
  CHECK_THROWS_WITH_AS(x[zeros({2})], doctest::Contains("or be a mask"), Error);
  const Tensor rows = from_vector(std::vector<int64_t>{0}, {1});
  CHECK_THROWS_WITH_AS((x[{rows, rows}]), doctest::Contains("more than one tensor"), Error);
  CHECK_THROWS_AS((x[{Slice(), from_vector(std::vector<int64_t>{3}, {1})}]), Error);
}
