// Normalisations of numbers that are equal, or close to each other and far from zero, against a
// model in double.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::View;

namespace {

// A normalisation without scale and shift. Numbers are in row-major order.
struct Normalization {
  const char* name;
  Index shape;
  int64_t sets, parameters;
  std::function<int64_t(const Index&)> set_of, parameter_of;
  bool channels_last = false;
  std::function<void(const Table&, View y, View mean, View rstd, View x, View running_mean,
                     View running_var, double eps)>
      forward;
  std::function<void(const Table&, View dx, View dgamma, View dbeta, View g, View x, View mean,
                     View rstd)>
      backward;

  Plain in_order(const Plain& x) const {
    return channels_last ? kernels::test::channels_last(x) : x;
  }
};

Normalization layer(int64_t rows, int64_t columns) {
  return {
      .name = "layer",
      .shape = {rows, columns},
      .sets = rows,
      .parameters = columns,
      .set_of = [](const Index& at) { return at[0]; },
      .parameter_of = [](const Index& at) { return at[1]; },
      .forward = [](const Table& on, View y, View mean, View rstd, View x, View, View,
                    double eps) { on.layer_norm(y, mean, rstd, x, {}, {}, eps); },
      .backward =
          [](const Table& on, View dx, View dgamma, View dbeta, View g, View x, View mean,
             View rstd) { on.layer_norm_backward(dx, dgamma, dbeta, g, {}, x, mean, rstd, {}); }};
}

Normalization group(int64_t samples, int64_t channels, int64_t plane) {
  return {
      .name = "group",
      .shape = {samples, channels, plane},
      .sets = samples * 2,
      .parameters = channels,
      .set_of = [=](const Index& at) { return at[0] * 2 + at[1] / (channels / 2); },
      .parameter_of = [](const Index& at) { return at[1]; },
      .forward = [](const Table& on, View y, View mean, View rstd, View x, View, View,
                    double eps) { on.group_norm(y, mean, rstd, x, {}, {}, 2, eps); },
      .backward =
          [](const Table& on, View dx, View dgamma, View dbeta, View g, View x, View mean,
             View rstd) { on.group_norm_backward(dx, dgamma, dbeta, g, x, mean, rstd, {}, 2); }};
}

Normalization batch(const Index& shape, bool channels_last) {
  return {
      .name = channels_last ? "batch, channels last" : "batch",
      .shape = shape,
      .sets = shape[1],
      .parameters = shape[1],
      .set_of = [](const Index& at) { return at[1]; },
      .parameter_of = [](const Index& at) { return at[1]; },
      .channels_last = channels_last,
      .forward =
          [](const Table& on, View y, View mean, View rstd, View x, View running_mean,
             View running_var, double eps) {
            on.batch_norm(y, mean, rstd, x, {}, {}, running_mean, running_var, true, 1, eps);
          },
      .backward =
          [](const Table& on, View dx, View dgamma, View dbeta, View g, View x, View mean,
             View rstd) { on.batch_norm_backward(dx, dgamma, dbeta, g, x, mean, rstd, {}, true); }};
}

std::vector<Normalization> all_normalizations() {
  return {layer(3, 768),
          layer(5, 17),
          layer(2, 5000),
          group(2, 4, 100),
          group(1, 6, 1111),
          batch({3, 5, 7, 9}, false),
          batch({3, 5, 7, 9}, true),
          batch({2, 64, 17, 16}, false),
          batch({2, 64, 17, 16}, true),
          batch({40, 3, 40, 40}, false),
          batch({40, 3, 40, 40}, true)};
}

// The values that the kernels write.
struct Results {
  Plain y, mean, rstd, running_mean, running_var, dx, dgamma, dbeta;

  Results(const Normalization& norm, DType dtype)
      : y(norm.in_order(zeros(dtype, norm.shape))),
        mean(zeros(DType::f64, {norm.sets})),
        rstd(zeros(wide(dtype), {norm.sets})),
        running_mean(zeros(wide(dtype), {norm.sets})),
        running_var(zeros(wide(dtype), {norm.sets})),
        dx(norm.in_order(zeros(dtype, norm.shape))),
        dgamma(zeros(wide(dtype), {norm.parameters})),
        dbeta(zeros(wide(dtype), {norm.parameters})) {}
};

struct Model {
  Numbers mean, variance, rstd, unbiased, y, dx, dgamma;
};

Model model_of(const Normalization& norm, const Numbers& x, const Numbers& g, double eps) {
  std::vector<int64_t> set, parameter;
  for_each_index(norm.shape, [&](const Index& at) {
    set.push_back(norm.set_of(at));
    parameter.push_back(norm.parameter_of(at));
  });
  const Numbers none(norm.sets);
  Model m = {none, none, none, none, x, g, Numbers(norm.parameters)};
  const double count = static_cast<double>(x.size()) / static_cast<double>(norm.sets);
  Numbers average = none, along = none;
  for (size_t i = 0; i < x.size(); ++i) m.mean[set[i]] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i)
    m.variance[set[i]] += std::pow(x[i] - m.mean[set[i]], 2) / count;
  for (size_t s = 0; s < none.size(); ++s) {
    m.rstd[s] = 1 / std::sqrt(m.variance[s] + eps);
    m.unbiased[s] = m.variance[s] * count / (count - 1);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    m.y[i] = (x[i] - m.mean[set[i]]) * m.rstd[set[i]];
    m.dgamma[parameter[i]] += g[i] * m.y[i];
    average[set[i]] += g[i] / count;
    along[set[i]] += g[i] * m.y[i] / count;
  }
  for (size_t i = 0; i < x.size(); ++i)
    m.dx[i] = m.rstd[set[i]] * (g[i] - average[set[i]] - m.y[i] * along[set[i]]);
  return m;
}

template <class Body>
void for_each_normalization(Body&& body) {
  for (const Normalization& norm : all_normalizations())
    for (const DType dtype : floating_dtypes) {
      CAPTURE(norm.name);
      CAPTURE(norm.shape[1]);
      CAPTURE(name_of(dtype));
      body(norm, dtype);
    }
}

// Returns the distance between numbers of a dtype near x.
double spacing(DType dtype, double x) {
  const int digits = dtype == DType::f32 ? 23 : dtype == DType::f16 ? 10 : 7;
  return std::ldexp(1, std::ilogb(x) - digits);
}

}  // namespace

TEST_CASE("normalised equal numbers are exactly 0, whatever their size and their layout") {
  std::mt19937 generator(3);
  for_each_normalization([&](const Normalization& norm, DType dtype) {
    const int lowest = dtype == DType::f16 ? -14 : -40, highest = dtype == DType::f16 ? 15 : 120;
    const int exponent = lowest + static_cast<int>(generator() % (highest - lowest));
    const double drawn = std::ldexp(1 + generator() * 0x1p-32, exponent);
    const double constant = norm.shape[1] == 768 && dtype != DType::f16 ? 123456.7 : drawn;
    CAPTURE(constant);
    const Plain plain = zeros(dtype, norm.shape);
    for_each_index(norm.shape, [&](const Index& at) { plain.set(at, constant); });
    const Plain x = norm.in_order(plain), g = norm.in_order(random(dtype, norm.shape, 2));
    const double stored = numbers(x)[0], eps = 1e-5;
    const Results r(norm, dtype);
    const auto sets = static_cast<size_t>(norm.sets);
    const bool updates = norm.name[0] == 'b';
    check_everywhere(
        [&](const Table& on) {
          norm.forward(on, r.y.view(), r.mean.view(), r.rstd.view(), x.view(),
                       r.running_mean.view(), r.running_var.view(), eps);
        },
        {{r.y, Numbers(numbers(x).size()), 0},
         {r.mean, Numbers(sets, stored), 0},
         {r.rstd, Numbers(sets, 1 / std::sqrt(eps)), 0},
         {r.running_mean, Numbers(sets, updates ? stored : 0), 0},
         {r.running_var, Numbers(sets), 0}});
    check_everywhere(
        [&](const Table& on) {
          norm.backward(on, r.dx.view(), r.dgamma.view(), r.dbeta.view(), g.view(), x.view(),
                        r.mean.view(), r.rstd.view());
        },
        {{r.dgamma, Numbers(numbers(r.dgamma).size()), 0}});
  });
}

TEST_CASE("numbers a few spacings apart are normalised as in double, forward and backward") {
  std::mt19937 generator(4);
  for_each_normalization([&](const Normalization& norm, DType dtype) {
    if (dtype == DType::f64) return;  // the model is no better
    const int exponent = static_cast<int>(generator() % 20) - (dtype == DType::f16 ? 8 : 3);
    const double constant = std::ldexp(1 + generator() * 0x1p-33, exponent);
    const double step = spacing(dtype, constant), eps = 1e-3 * step * step;
    CAPTURE(constant);
    const Plain plain = zeros(dtype, norm.shape), drawn = random(dtype, norm.shape, 2);
    for_each_index(norm.shape, [&](const Index& at) {
      const int steps = static_cast<int>(generator() % 9) - 4;
      plain.set(at, std::floor(constant / step) * step + steps * step);
      drawn.set(at, drawn.at(at) * step);  // as large gradients of x as of y
    });
    const Plain x = norm.in_order(plain), g = norm.in_order(drawn);
    const Model m = model_of(norm, numbers(x), numbers(g), eps);
    const Results r(norm, dtype);
    const bool updates = norm.name[0] == 'b';
    const Numbers none(m.mean.size());
    const double terms = 100 + static_cast<double>(m.y.size() / m.dgamma.size());
    check_everywhere(
        [&](const Table& on) {
          norm.forward(on, r.y.view(), r.mean.view(), r.rstd.view(), x.view(),
                       r.running_mean.view(), r.running_var.view(), eps);
          for (size_t i = 0; i < m.mean.size(); ++i)
            CHECK(std::abs(numbers(r.mean)[i] - m.mean[i]) < 1e-4 * step);
        },
        {{r.y, m.y, 8},
         {r.rstd, m.rstd, 8 / step},
         {r.running_mean, updates ? m.mean : none},
         {r.running_var, updates ? m.unbiased : none, 8 * step * step}});
    check_everywhere(
        [&](const Table& on) {
          norm.backward(on, r.dx.view(), r.dgamma.view(), r.dbeta.view(), g.view(), x.view(),
                        r.mean.view(), r.rstd.view());
        },
        {{r.dx, m.dx, 16}, {r.dgamma, m.dgamma, terms * step}});
  });
}
