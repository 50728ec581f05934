// conv2d and its two backward passes against a plain double loop over the definition.
#include "kernels/catalogue.h"
#include "platform/threads.h"
#include "tests/kernels/plain_tensor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

struct Case {
  int64_t images, channels, outputs, height, width;
  Window2d window;
};

int64_t out_size(int64_t in, const Window2d& w, int axis) {
  return (in + 2 * w.padding[axis] - w.dilation[axis] * (w.kernel[axis] - 1) - 1) / w.stride[axis] +
         1;
}

const Case cases[] = {
    {2, 3, 8, 9, 7, {{3, 3}, {1, 1}, {1, 1}}},              // same size
    {2, 16, 32, 8, 8, {{3, 3}, {2, 2}, {1, 1}}},            // ResNet's down-sampling
    {2, 32, 16, 6, 6, {{1, 1}, {2, 2}}},                    // its shortcut
    {2, 3, 24, 16, 16, {{8, 8}, {8, 8}}},                   // patches
    {1, 3, 5, 11, 13, {{3, 5}, {2, 1}, {0, 2}, {2, 1}}},    // everything uneven
    {2, 8, 12, 7, 7, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 4}},  // groups
    {2, 6, 6, 7, 7, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 6}},   // depthwise
    {1, 1, 1, 1, 1, {{1, 1}}},                              //
    {3, 2, 4, 4, 6, {{4, 6}}},                              // one output position
    {2, 4, 3, 5, 5, {{2, 2}, {3, 3}}},                      // a last row and column unused
    {0, 3, 4, 5, 5, {{3, 3}}},                              // no images
};

// Calls body(term) for every product, with the positions in y, x and the weight.
struct Term {
  Index y, x, weight;
};
void for_each_term(const Case& c, const std::function<void(const Term&)>& body) {
  const auto& w = c.window;
  const int64_t inputs = c.channels / w.groups, outputs = c.outputs / w.groups;
  for_each_index(
      {c.images, c.outputs, out_size(c.height, w, 0), out_size(c.width, w, 1), inputs, w.kernel[0],
       w.kernel[1]},
      [&](const Index& i) {
        const int64_t y = i[2] * w.stride[0] - w.padding[0] + i[5] * w.dilation[0];
        const int64_t x = i[3] * w.stride[1] - w.padding[1] + i[6] * w.dilation[1];
        if (y < 0 || y >= c.height || x < 0 || x >= c.width) return;
        const int64_t channel = i[1] / outputs * inputs + i[4];
        body({{i[0], i[1], i[2], i[3]}, {i[0], channel, y, x}, {i[1], i[4], i[5], i[6]}});
      });
}

struct Tensors {
  Plain x, weight, y, bias;
};

Tensors tensors_for(const Case& c, DType dtype) {
  const int64_t oh = out_size(c.height, c.window, 0), ow = out_size(c.width, c.window, 1);
  return {
      random(dtype, {c.images, c.channels, c.height, c.width}, 1),
      random(dtype,
             {c.outputs, c.channels / c.window.groups, c.window.kernel[0], c.window.kernel[1]}, 2),
      random(dtype, {c.images, c.outputs, oh, ow}, 3), random(dtype, {c.outputs}, 4)};
}

// Sums of terms in f64, and sums of their absolute values.
struct Sums {
  Plain value, magnitude;
  explicit Sums(const Plain& like)
      : value(DType::f64, like.shape, contiguous_strides(like.shape)), magnitude(value) {}
  void add(const Index& index, double term) {
    value.set(index, value.at(index) + term);
    magnitude.set(index, magnitude.at(index) + std::abs(term));
  }
  void check(const Plain& got) const {
    int wrong = 0;
    for_each_index(got.shape, [&](const Index& i) {
      const double want = value.at(i);
      wrong += !(std::abs(got.at(i) - want) <= tolerance(got.dtype, want, magnitude.at(i)));
    });
    CHECK(wrong == 0);
  }
};

void check_forward(const Case& c, const Tensors& t, bool with_bias) {
  Sums sums(t.y);
  if (with_bias) for_each_index(t.y.shape, [&](const Index& i) { sums.add(i, t.bias.at({i[1]})); });
  for_each_term(
      c, [&](const Term& term) { sums.add(term.y, t.x.at(term.x) * t.weight.at(term.weight)); });
  const Plain y = t.y;
  y.fill_bytes(0xFF);
  on({}).conv2d(y.view(), t.x.view(), t.weight.view(), with_bias ? t.bias.view() : View{},
                c.window);
  sums.check(y);
}

void check_backward_input(const Case& c, const Tensors& t) {
  Sums sums(t.x);
  for_each_term(
      c, [&](const Term& term) { sums.add(term.x, t.y.at(term.y) * t.weight.at(term.weight)); });
  const Plain dx = t.x;
  dx.fill_bytes(0xFF);
  on({}).conv2d_backward_input(dx.view(), t.y.view(), t.weight.view(), c.window);
  sums.check(dx);
}

void check_backward_weight(const Case& c, const Tensors& t, DType dtype) {
  Sums sums(t.weight), bias_sums(t.bias);
  for_each_term(c,
                [&](const Term& term) { sums.add(term.weight, t.y.at(term.y) * t.x.at(term.x)); });
  for_each_index(t.y.shape, [&](const Index& i) { bias_sums.add({i[1]}, t.y.at(i)); });
  const Plain dweight = random(dtype, t.weight.shape, 5), dbias = random(dtype, t.bias.shape, 6);
  dweight.fill_bytes(0xFF), dbias.fill_bytes(0xFF);
  on({}).conv2d_backward_weight(dweight.view(), dbias.view(), t.y.view(), t.x.view(), c.window);
  sums.check(dweight);
  bias_sums.check(dbias);
  on({}).conv2d_backward_weight(dweight.view(), {}, t.y.view(), t.x.view(), c.window);
  sums.check(dweight);
}

template <class Check>
void for_each_case(Check&& check) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Case& c : cases) {
      const std::string work = fmt::format("{}: case {}", name_of(dtype), &c - cases);
      CAPTURE(work);
      check(c, dtype);
    }
}

}  // namespace

TEST_CASE("conv2d equals the sum over the window, with and without bias") {
  for_each_case([](const Case& c, DType dtype) {
    check_forward(c, tensors_for(c, dtype), false);
    check_forward(c, tensors_for(c, dtype), true);
  });
}

TEST_CASE("conv2d_backward_input is the adjoint in x") {
  for_each_case([](const Case& c, DType dtype) { check_backward_input(c, tensors_for(c, dtype)); });
}

TEST_CASE("conv2d_backward_weight is the adjoint in the weight and sums g into the bias") {
  for_each_case([](const Case& c, DType dtype) {
    check_backward_weight(c, tensors_for(c, dtype), dtype);
    if (is_16_bit(dtype)) check_backward_weight(c, tensors_for(c, dtype), DType::f32);
  });
}

TEST_CASE("convolutions take channels-last and broadcast tensors") {
  for_each_case([](const Case& c, DType dtype) {
    Tensors t = tensors_for(c, dtype);
    t.x = channels_last(t.x);
    t.y = channels_last(t.y);
    t.weight = channels_last(t.weight);
    check_forward(c, t, true);
    check_backward_input(c, t);
    check_backward_weight(c, t, dtype);
    for (int64_t& stride : t.y.strides) stride = 0;  // like the gradient of a sum
    const Plain dx = t.x;
    on({}).conv2d_backward_input(dx.view(), t.y.view(), t.weight.view(), c.window);
    Sums sums(t.x);
    for_each_term(
        c, [&](const Term& term) { sums.add(term.x, t.y.at(term.y) * t.weight.at(term.weight)); });
    sums.check(dx);
  });
}

TEST_CASE("convolutions give the same bits with one thread and with two, and in every run") {
  const Case c = {4, 16, 32, 14, 14, {{3, 3}, {1, 1}, {1, 1}}};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(std::string(name_of(dtype)));
    const Tensors t = tensors_for(c, dtype);
    const int before = thread_count();
    Plain y[2], dx[2], dweight[2];
    for (const int i : {0, 1}) {
      y[i] = Plain(t.y), dx[i] = Plain(t.x), dweight[i] = Plain(t.weight);
      set_thread_count(i + 1);
      on({}).conv2d(y[i].view(), t.x.view(), t.weight.view(), t.bias.view(), c.window);
      on({}).conv2d_backward_input(dx[i].view(), t.y.view(), t.weight.view(), c.window);
      set_thread_count(2);  // a weight's gradient depends on the number of threads
      on({}).conv2d_backward_weight(dweight[i].view(), {}, t.y.view(), t.x.view(), c.window);
    }
    set_thread_count(before);
    CHECK(*y[0].bytes == *y[1].bytes);
    CHECK(*dx[0].bytes == *dx[1].bytes);
    CHECK(*dweight[0].bytes == *dweight[1].bytes);
  }
}
