// Channels-last images: every function gives the same result as on contiguous ones, and functions
// that promise to keep the memory order do.
#include "core/tensor/channels_last.h"

#include "core/autograd/functions.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/tensor/random/random.h"
#include "core/tensor/tensor.h"
#include "tests/draws.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

using namespace booster;

namespace {

using Values = std::vector<double>;

const Shape image_shape = {3, 5, 4, 6};

// A function of an image, and of a second image or kernel of the same image_shape.
struct ImageStep {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& other)> of;
  bool keeps_order;
};

Tensor twos(const Tensor& x) { return full(x.shape(), 2, {x.dtype(), x.device()}); }

const ImageStep image_steps[] = {
    {"relu", [](const Tensor& x, const Tensor&) { return relu(x); }, true},
    {"tanh", [](const Tensor& x, const Tensor&) { return tanh(x); }, true},
    {"x + other", [](const Tensor& x, const Tensor& o) { return x + o; }, true},
    {"other * x", [](const Tensor& x, const Tensor& o) { return o * x; }, true},
    {"contiguous - x", [](const Tensor& x, const Tensor&) { return twos(x) - x; }, true},
    {"x * column",
     [](const Tensor& x, const Tensor&) {
       return x * full({5, 1, 1}, 0.5);
     },
     true},
    {"x * 0.25", [](const Tensor& x, const Tensor&) { return x * 0.25; }, true},
    {"batch_norm",
     [](const Tensor& x, const Tensor&) {
       return batch_norm(x, {}, {}, full({5}, 0.5), full({5}, 0.25), {.training = true});
     },
     true},
    {"batch_norm_relu",
     [](const Tensor& x, const Tensor&) {
       return batch_norm_relu(x, {}, {}, full({5}, 0.5), full({5}, 0.25), {.training = true});
     },
     true},
    {"batch_norm_relu of a sum",
     [](const Tensor& x, const Tensor& o) {
       return batch_norm_relu(x, {}, {}, full({5}, -0.5), {}, {.training = true}, o);
     },
     true},
    {"conv2d",
     [](const Tensor& x, const Tensor&) {
       return conv2d(x, full({5, 5, 3, 3}, 0.05) * 1.5, {}, {.padding = 1});
     },
     true},
    {"slice and cat",
     [](const Tensor& x, const Tensor& o) {
       return cat({slice(x, 1, 0, 2), slice(o, 1, 2)}, 1);
     },
     true},
    {"halves",
     [](const Tensor& x, const Tensor&) {
       const Tensor half = slice(slice(x, 2, 0, {}, 2), 3, 1, {}, 2);
       return cat({cat({half, half}, 2), cat({half, half}, 2)}, 3);
     },
     true},
    {"narrow",
     [](const Tensor& x, const Tensor& o) {
       return cat({narrow(o, 3, 0, 4), narrow(x, 3, 2, 2)}, 3);
     },
     true},
    {"clamp", [](const Tensor& x, const Tensor&) { return clamp(x, -1, 1); }, false},
    {"softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 1); }, false},
    {"mean",
     [](const Tensor& x, const Tensor&) {
       return x - x.mean({2, 3}, true);
     },
     true},
    {"avg_pool2d",
     [](const Tensor& x, const Tensor&) { return avg_pool2d(x, 3, {.stride = 1, .padding = 1}); },
     true},
    {"max_pool2d",
     [](const Tensor& x, const Tensor&) { return max_pool2d(x, 3, {.stride = 1, .padding = 1}); },
     true},
    {"pad by reflection",
     [](const Tensor& x, const Tensor&) {
       return narrow(narrow(pad(x, {2, 1, 1, 0}, "reflect"), 3, 0, 6), 2, 0, 4);
     },
     true},
    {"pad by the edge, channels too",
     [](const Tensor& x, const Tensor&) {
       const Tensor wide = pad(x, {1, 1, 0, 2, 2, 1}, "replicate");
       return narrow(narrow(narrow(wide, 3, 0, 6), 2, 2, 4), 1, 1, 5);
     },
     true},
    {"reshape",
     [](const Tensor& x, const Tensor&) {
       return reshape(reshape(x, {3, -1}), x.shape());
     },
     false},
    {"transpose",
     [](const Tensor& x, const Tensor&) { return transpose(exp(transpose(x * 0.1, 1, 3)), 1, 3); },
     false},
    {"group_norm", [](const Tensor& x, const Tensor&) { return group_norm(x, 5); }, false},
    {"contiguous", [](const Tensor& x, const Tensor&) { return contiguous(x); }, false},
    {"channels_last", [](const Tensor& x, const Tensor&) { return channels_last(x); }, true},
};

struct ChainResult {
  Values y, dx, dother;
};

ChainResult result_of(const std::vector<const ImageStep*>& chain, DType dtype, bool last) {
  Generator generator(7);
  const Tensor x = normal(image_shape, 0, 1, {}, generator).requires_grad_(),
               other = normal(image_shape, 0, 1, {}, generator).requires_grad_();
  const auto image = [&](const Tensor& leaf) {
    const Tensor cast = leaf.to(dtype);
    return last ? channels_last(cast) : cast;
  };
  Tensor y = image(x), beside = image(other);
  const PolicyScope none(nullptr);
  for (const ImageStep* step : chain) {
    y = step->of(y, beside);
    if (step->keeps_order && last) CHECK_MESSAGE(is_channels_last(y), step->name);
    if (!is_channels_last(y) && last) y = channels_last(y);
  }
  backward(y, {.grad = normal(image_shape, 0, 1, {}, generator).to(dtype)});
  CHECK(x.grad().is_contiguous());
  const auto of = [](const Tensor& t) { return t.defined() ? t.to_vector<double>() : Values(); };
  return {of(y), of(x.grad()), of(other.grad())};
}

double largest_gap(const Values& a, const Values& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
  return largest;
}

void check_orders(const std::vector<const ImageStep*>& chain, DType dtype) {
  std::string names;
  for (const ImageStep* step : chain) names += std::string(step->name) + "; ";
  CAPTURE(names);
  const ChainResult got = result_of(chain, dtype, true), want = result_of(chain, dtype, false);
  const double allowed = dtype == DType::f32 ? 2e-5 : 1e-10;
  CHECK(largest_gap(got.y, want.y) < allowed);
  CHECK(largest_gap(got.dx, want.dx) < allowed);
  CHECK(largest_gap(got.dother, want.dother) < allowed);
}

}  // namespace

TEST_CASE("every function gives the same of images with channels last, and its gradient too") {
  for (const ImageStep& step : image_steps) check_orders({&step}, DType::f32);
}

TEST_CASE("so do drawn chains of functions") {
  for (const unsigned trial : testing::draws(60)) {
    std::mt19937 random(trial);
    std::vector<const ImageStep*> chain(2 + random() % 3);
    for (auto& step : chain) step = &image_steps[random() % std::size(image_steps)];
    check_orders(chain, DType::f32);
  }
}

namespace {

struct Pooling {
  std::string text;
  std::function<std::vector<Tensor>(const Tensor& x)> of;
};

int64_t from_range(std::mt19937& random, int64_t least, int64_t most) {
  return least + int64_t(random() % uint64_t(most - least + 1));
}

Pooling drawn_pooling(std::mt19937& random) {
  const auto from = [&](int64_t least, int64_t most) { return from_range(random, least, most); };
  const Size2d kernel(from(1, 4), from(1, 3)), stride(from(1, 3), from(1, 3));
  PoolOptions options{.stride = stride,
                      .padding = {from(0, kernel.height / 2), from(0, kernel.width / 2)}};
  options.ceil_mode = from(0, 1) == 1;
  options.count_padding = from(0, 1) == 1;
  std::string text = fmt::format("kernel {} {}, stride {} {}, padding {} {}, ceil {}, count {}",
                                 kernel.height, kernel.width, stride.height, stride.width,
                                 options.padding.height, options.padding.width, options.ceil_mode,
                                 options.count_padding);
  switch (from(0, 2)) {
    case 0:
      return {"average " + text, [=](const Tensor& x) {
                return std::vector{avg_pool2d(x, kernel, options)};
              }};
    case 1: {
      const Size2d size(from(1, 9), from(1, 9));
      return {fmt::format("adaptive {} {}", size.height, size.width),
              [=](const Tensor& x) { return std::vector{adaptive_avg_pool2d(x, size)}; }};
    }
    default:
      options.dilation = {from(1, 2), from(1, 2)};
      return {fmt::format("maximum {}, dilation {} {}", text, options.dilation.height,
                          options.dilation.width),
              [=](const Tensor& x) {
                const auto [y, index] = max_pool2d_with_indices(x, kernel, options);
                return std::vector{y, index};
              }};
  }
}

}  // namespace

TEST_CASE("drawn pooling gives the same in both orders, and keeps the order") {
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
  for (const unsigned trial : testing::draws(300)) {
    std::mt19937 random(trial);
    const DType dtype = dtypes[random() % 4];
    const Shape shape = {from_range(random, 1, 3), from_range(random, 2, 80),
                         from_range(random, 7, 11), from_range(random, 6, 11)};
    const Pooling pooling = drawn_pooling(random);
    CAPTURE(trial);
    CAPTURE(name_of(dtype));
    CAPTURE(pooling.text);
    Generator generator(trial);
    Tensor images = normal(shape, 0, 1, {}, generator).to(dtype);
    if (random() % 4 == 0) images = round(images);  // with equal neighbours
    const double allowed = is_16_bit(dtype) ? 1e-2 : (dtype == DType::f32 ? 1e-5 : 1e-13);
    const Tensor rows = images.clone().requires_grad_(true),
                 pixels = channels_last(images).requires_grad_(true);
    const std::vector<Tensor> want = pooling.of(rows), got = pooling.of(pixels);
    const bool is_flat = got[0].size(2) * got[0].size(3) == 1;
    CHECK(is_channels_last(got[0]) == !is_flat);
    for (size_t i = 0; i < want.size(); ++i) {
      const double gap = want.size() == 2 ? 0 : allowed;  // a maximum is one of the elements
      CHECK(largest_gap(got[i].to_vector<double>(), want[i].to_vector<double>()) <= gap);
    }
    const Tensor g = normal(want[0].shape(), 0, 1, {}, generator).to(dtype);
    backward(want[0], {.grad = g});
    backward(got[0], {.grad = random() % 2 ? channels_last(g) : g});
    CHECK(largest_gap(pixels.grad().to_vector<double>(), rows.grad().to_vector<double>()) <=
          allowed);
  }
}

TEST_CASE("channels last is an order in memory, told from row-major order") {
  const Tensor x = normal({2, 3, 4, 5}), last = channels_last(x);
  CHECK(last.strides() == Shape{60, 1, 15, 3});
  CHECK(last.to_vector<float>() == x.to_vector<float>());
  CHECK(is_dense_channels_last(last));
  CHECK_FALSE(is_channels_last(x));
  CHECK(channels_last(last).same_body(last));
  CHECK(contiguous(last).is_contiguous());
  const Tensor part = narrow(last, 1, 0, 2);
  CHECK(is_channels_last(part));
  CHECK_FALSE(is_dense_channels_last(part));
  CHECK(is_dense_channels_last(untracked::dense(part)));
  for (const Shape& both : {Shape{2, 1, 4, 5}, Shape{2, 3, 1, 1}, Shape{0, 3, 4, 5}}) {
    CHECK_FALSE(is_channels_last(channels_last(zeros(both))));
    CHECK(channels_last(zeros(both)).is_contiguous());
  }
  // attention's heads, and broadcast tensors
  CHECK_FALSE(is_channels_last(transpose(zeros({2, 7, 3, 8}), 1, 2)));
  CHECK_FALSE(is_channels_last(expand(zeros({1, 3, 1, 1}), {2, 3, 4, 5})));
  CHECK_THROWS_WITH(channels_last(zeros({2, 3})),
                    doctest::Contains("channels_last: want images (n, c, h, w)"));
  CHECK_THROWS_WITH(channels_last(Tensor()), doctest::Contains("channels_last"));
}

TEST_CASE("a gradient gives its memory only to one in the same order") {
  const NoGradGuard no_grad;
  const Tensor last = untracked::channels_last(normal({2, 3, 4, 5})), dense = normal({2, 3, 4, 5});
  CHECK(room_in_place_of(last, last.clone()).view().data != last.view().data);
  CHECK(room_in_place_of(last, last.clone()).is_contiguous());
  CHECK(is_dense_channels_last(room_in_place_of(dense, last)));
  const Tensor g = untracked::channels_last(normal({2, 3, 4, 5}));
  const Tensor room = room_in_place_of(g, last);
  CHECK(room.view().data == g.view().data);
  CHECK(is_dense_channels_last(room));
}

TEST_CASE("a sum of gradients in both orders is right, whichever comes first") {
  for (const bool last_first : {false, true}) {
    const Tensor x = normal(image_shape).requires_grad_();
    const Tensor y = x * 1.0;
    const Tensor a = channels_last(y) * 2.0, b = relu(y) * 3.0;
    backward(last_first ? a + b : b + a, {.grad = ones(image_shape)});
    Values want;
    for (const double value : x.to_vector<double>()) want.push_back(value > 0 ? 5 : 2);
    CHECK(x.grad().to_vector<double>() == want);
  }
}
