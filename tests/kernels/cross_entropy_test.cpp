// Cross entropy with smoothing, class weights and ignored rows, against plain loops.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::View;

namespace {

constexpr int64_t ignored = -100;

struct Problem {
  Plain logits, target, weight;
  int64_t rows, classes;
  double smoothing;
  bool weighted;

  View weight_view() const { return weighted ? weight.view() : View{}; }
  double weight_at(int64_t c) const { return weighted ? weight.at({c}) : 1; }
};

Problem problem(DType dtype, int64_t rows, int64_t classes, double smoothing, bool weighted) {
  Problem p = {random(dtype, {rows, classes}, 1),
               zeros(DType::i64, {rows}),
               random(DType::f32, {classes}, 2),
               rows,
               classes,
               smoothing,
               weighted};
  for (int64_t c = 0; c < classes; ++c) p.weight.set({c}, std::abs(p.weight.at({c})) + 0.1);
  for (int64_t row = 0; row < rows; ++row)
    p.target.set({row}, row % 5 == 4 ? double(ignored) : double(row * 7 % classes));
  return p;
}

double log_sum(const Problem& p, int64_t row) {
  double sum = 0;
  for (int64_t c = 0; c < p.classes; ++c) sum += std::exp(p.logits.at({row, c}));
  return std::log(sum);
}

// The kernels' representation: the largest logit, and the log-sum minus it.
void add_parts(Numbers& parts, double log_sum, const Plain& logits, int64_t row) {
  double largest = logits.at({row, 0});
  for (int64_t c = 1; c < logits.shape[1]; ++c) largest = std::max(largest, logits.at({row, c}));
  parts.push_back(largest);
  parts.push_back(log_sum - largest);
}

double loss(const Problem& p, int64_t row) {
  const auto target = static_cast<int64_t>(p.target.at({row}));
  if (target == ignored) return 0;
  const double sum = log_sum(p, row);
  double smooth = 0;
  for (int64_t c = 0; c < p.classes; ++c) smooth += p.weight_at(c) * (sum - p.logits.at({row, c}));
  return (1 - p.smoothing) * p.weight_at(target) * (sum - p.logits.at({row, target})) +
         p.smoothing / double(p.classes) * smooth;
}

double slope(const Problem& p, int64_t row, int64_t c) {
  const auto target = static_cast<int64_t>(p.target.at({row}));
  if (target == ignored) return 0;
  const double probability = std::exp(p.logits.at({row, c}) - log_sum(p, row));
  const double each = p.smoothing / double(p.classes);
  double d = (1 - p.smoothing) * p.weight_at(target) * (probability - (c == target));
  for (int64_t k = 0; k < p.classes; ++k) d += each * p.weight_at(k) * (probability - (c == k));
  return d;
}

const std::pair<int64_t, int64_t> sizes[] = {{0, 3}, {1, 1}, {7, 3}, {6, 17}, {11, 101}, {5, 1000}};

template <class Body>
void for_each_problem(Body&& body) {
  for (const DType dtype : floating_dtypes)
    for (const auto& size : sizes)
      for (const double smoothing : {0.0, 0.1})
        for (const bool weighted : {false, true}) {
          const int64_t rows = size.first, classes = size.second;
          CAPTURE(name_of(dtype));
          CAPTURE(classes);
          body(dtype, problem(dtype, rows, classes, smoothing, weighted));
        }
}

}  // namespace

TEST_CASE("cross_entropy equals a loop in double") {
  for_each_problem([](DType dtype, const Problem& p) {
    const Plain losses = zeros(wide(dtype), {p.rows}), sums = zeros(wide(dtype), {p.rows, 2});
    const Plain bad = zeros(DType::i64, {1});
    Numbers want_losses, want_sums;
    for (int64_t row = 0; row < p.rows; ++row) {
      want_losses.push_back(loss(p, row));
      add_parts(want_sums, log_sum(p, row), p.logits, row);
    }
    check_everywhere(
        [&](const Table& on) {
          on.cross_entropy(losses.view(), sums.view(), {}, bad.view(), p.logits.view(),
                           p.target.view(), p.weight_view(), p.smoothing, ignored, 0, p.classes);
        },
        {{losses, want_losses, 8}, {sums, want_sums, 8}, {bad, {-1}}});
  });
}

TEST_CASE(
    "cross_entropy_backward equals a loop in double, with one scale for all rows or one each") {
  for_each_problem([](DType dtype, const Problem& p) {
    Numbers parts;
    for (int64_t row = 0; row < p.rows; ++row) add_parts(parts, log_sum(p, row), p.logits, row);
    const Plain sums = from_numbers(wide(dtype), {p.rows, 2}, parts);
    Plain scale = random(wide(dtype), {p.rows}, 5);
    const Plain dlogits = zeros(dtype, {p.rows, p.classes});
    if (p.weighted) scale.strides[0] = 0;
    Numbers want;
    for (int64_t row = 0; row < p.rows; ++row)
      for (int64_t c = 0; c < p.classes; ++c) want.push_back(scale.at({row}) * slope(p, row, c));
    check_everywhere(
        [&](const Table& on) {
          on.cross_entropy_backward(dlogits.view(), scale.view(), p.logits.view(), sums.view(),
                                    p.target.view(), p.weight_view(), p.smoothing, ignored, 0,
                                    p.classes);
        },
        {{dlogits, want, 2}});
  });
}

TEST_CASE("cross_entropy names the first row whose target is no class") {
  Problem p = problem(DType::f32, 6, 3, 0, false);
  p.target.set({5}, -1);
  p.target.set({3}, 3);
  const Plain losses = zeros(DType::f32, {6}), sums = zeros(DType::f32, {6, 2}),
              bad = zeros(DType::i64, {1});
  check_everywhere(
      [&](const Table& on) {
        on.cross_entropy(losses.view(), sums.view(), {}, bad.view(), p.logits.view(),
                         p.target.view(), {}, 0, ignored, 0, p.classes);
      },
      {{bad, {3}}});
}

namespace {

// Classes [first, first + count) of a problem.
struct Part {
  const Problem& whole;
  int64_t first, count;

  Plain logits(DType dtype) const {
    Plain part = zeros(dtype, {whole.rows, count});
    for (int64_t row = 0; row < whole.rows; ++row)
      for (int64_t c = 0; c < count; ++c) part.set({row, c}, whole.logits.at({row, first + c}));
    return part;
  }
  double log_sum(int64_t row) const {
    double sum = 0;
    for (int64_t c = 0; c < count; ++c) sum += std::exp(whole.logits.at({row, first + c}));
    return std::log(sum);
  }
  // Returns the factor of -log p[c] in the row's loss.
  double factor(int64_t row, int64_t c) const {
    const auto target = static_cast<int64_t>(whole.target.at({row}));
    if (target == ignored) return 0;
    const double smooth = whole.smoothing / double(whole.classes);
    return whole.weight_at(c) * ((c == target) * (1 - whole.smoothing) + smooth);
  }
  double factor(int64_t row) const {
    double sum = 0;
    for (int64_t c = first; c < first + count; ++c) sum += factor(row, c);
    return sum;
  }
  double loss(int64_t row) const {
    double sum = 0;
    for (int64_t c = first; c < first + count; ++c)
      sum += factor(row, c) * (log_sum(row) - whole.logits.at({row, c}));
    return sum;
  }
};

}  // namespace

TEST_CASE("cross_entropy of some of the classes equals a loop in double") {
  for_each_problem([](DType dtype, const Problem& p) {
    for (const int64_t first : {int64_t{0}, p.classes / 3, p.classes - 1}) {
      const Part part{p, first, std::max<int64_t>(1, (p.classes - first) / 2)};
      const Plain logits = part.logits(dtype), losses = zeros(wide(dtype), {p.rows}),
                  sums = zeros(wide(dtype), {p.rows, 2}), factors = zeros(wide(dtype), {p.rows}),
                  bad = zeros(DType::i64, {1}), scale = random(wide(dtype), {p.rows}, 5),
                  dlogits = zeros(dtype, {p.rows, part.count});
      Numbers want_losses, want_sums, parts, want_factors, want_slopes;
      for (int64_t row = 0; row < p.rows; ++row) {
        want_losses.push_back(part.loss(row));
        add_parts(want_sums, part.log_sum(row), logits, row);
        want_factors.push_back(part.factor(row));
        add_parts(parts, log_sum(p, row), p.logits, row);
        for (int64_t c = first; c < first + part.count; ++c)
          want_slopes.push_back(scale.at({row}) * slope(p, row, c));
      }
      const Plain all_sums = from_numbers(wide(dtype), {p.rows, 2}, parts);
      check_everywhere(
          [&](const Table& on) {
            on.cross_entropy(losses.view(), sums.view(), factors.view(), bad.view(), logits.view(),
                             p.target.view(), p.weight_view(), p.smoothing, ignored, first,
                             p.classes);
            on.cross_entropy_backward(dlogits.view(), scale.view(), logits.view(), all_sums.view(),
                                      p.target.view(), p.weight_view(), p.smoothing, ignored,
                                      first, p.classes);
          },
          {{losses, want_losses, 8},
           {sums, want_sums, 8},
           {factors, want_factors, 8},
           {bad, {-1}},
           {dlogits, want_slopes, 2}});
    }
  });
}

TEST_CASE("cross_entropy of large logits that are equal is the logarithm of how many there are") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const double logit : {1e9, 1e20, -1e20, 1e30, -1e30, -3.3895314e38}) {
      CAPTURE(name_of(dtype));
      CAPTURE(logit);
      const Plain logits = from_numbers(dtype, {1, 4}, Numbers(4, logit)),
                  target = zeros(DType::i64, {1}), losses = zeros(wide(dtype), {1}),
                  sums = zeros(wide(dtype), {1, 2}), bad = zeros(DType::i64, {1}),
                  scale = from_numbers(wide(dtype), {1}, {1}), dlogits = zeros(dtype, {1, 4});
      check_everywhere(
          [&](const Table& on) {
            on.cross_entropy(losses.view(), sums.view(), {}, bad.view(), logits.view(),
                             target.view(), {}, 0, ignored, 0, 4);
            on.cross_entropy_backward(dlogits.view(), scale.view(), logits.view(), sums.view(),
                                      target.view(), {}, 0, ignored, 0, 4);
          },
          {{losses, {std::log(4.0)}}, {dlogits, {-0.75, 0.25, 0.25, 0.25}}});
    }
}
