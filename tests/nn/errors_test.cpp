// Wrong arguments raise an error that names the function, what it got and what it wants.
#include "core/nn/functional.h"
#include "core/tensor/host_reads.h"
#include "tests/capture_part.h"
#include "tests/nn/golden.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace booster;
using namespace booster::testing;

namespace {

struct Mistake {
  std::string text;  // a part of the message
  std::function<void()> call;
};

void check_messages(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.text);
    CHECK_THROWS_WITH_AS(mistake.call(), doctest::Contains(mistake.text.c_str()), Error);
  }
}

Tensor f(const Shape& shape, DType dtype = DType::f32) { return ones(shape, {.dtype = dtype}); }
Tensor classes(std::vector<int64_t> values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("wrong shapes are named") {
  check_messages({
      {"layer_norm: x does not end in the normalised shape; got (3, 5), want it to end in (4,)",
       [] {
         layer_norm(f({3, 5}), {4});
       }},
      {"layer_norm: weight has the wrong shape; got (3,), want (5,)",
       [] {
         layer_norm(f({3, 5}), {5}, f({3}));
       }},
      {"group_norm: groups do not divide the channels; got 3 groups of 4 channels",
       [] {
         group_norm(f({2, 4}), 3);
       }},
      {"batch_norm: one value per channel",
       [] {
         batch_norm(f({1, 4}), {}, {}, {}, {}, {.training = true});
       }},
      {"batch_norm: running statistics are incomplete",
       [] {
         batch_norm(f({2, 4}), {}, {});
       }},
      {"conv2d: channels differ; got x (1, 4, 5, 5) and weight (2, 3, 3, 3)",
       [] {
         conv2d(f({1, 4, 5, 5}), f({2, 3, 3, 3}));
       }},
      {"conv2d: window is larger than the image; got 3 of 2",
       [] {
         conv2d(f({1, 3, 2, 2}), f({2, 3, 3, 3}));
       }},
      {"conv2d: wrong number of dimensions; got x (3, 2, 2)",
       [] {
         conv2d(f({3, 2, 2}), f({2, 3, 3, 3}));
       }},
      {"conv2d: wrong window; got kernel 3, stride 0",
       [] {
         conv2d(f({1, 3, 5, 5}), f({2, 3, 3, 3}), {}, {.stride = 0});
       }},
      {"max_pool2d: padding is more than half the window; got 2, want at most 1",
       [] {
         max_pool2d(f({1, 1, 5, 5}), 3, {.padding = 2});
       }},
      {"attention: shapes differ",
       [] {
         attention(f({1, 2, 3, 4}), f({1, 2, 3, 5}), f({1, 2, 3, 4}));
       }},
      {"attention: qkv has the wrong shape; got (1, 3, 4)",
       [] {
         attention_packed(f({1, 3, 4}));
       }},
      {"attention: mask does not broadcast",
       [] {
         attention(f({1, 2, 3, 4}), f({1, 2, 5, 4}), f({1, 2, 5, 4}), {.mask = f({2, 1, 3, 5})});
       }},
      {"embedding: table has the wrong shape", [] { embedding(classes({0}), f({3})); }},
      {"linear_gelu: sizes do not match; got x (2, 3) and weight (4, 5)",
       [] {
         linear_gelu(f({2, 3}), f({4, 5}));
       }},
      {"mse_loss: shapes differ; got output (2,) and target (3,)",
       [] { mse_loss(f({2}), f({3})); }},
      {"cross_entropy: target has the wrong shape; got (3,) for logits (2, 5), want (2,)",
       [] {
         cross_entropy(f({2, 5}), classes({0, 1, 2}));
       }},
      {"cross_entropy: weight has the wrong shape; got (4,), want (5,)",
       [] {
         cross_entropy(f({2, 5}), classes({0, 1}), {.weight = f({4})});
       }},
      {"softmax",
       [] {
         softmax(f({2, 3}), 2);
       }},
      {"init: want a weight (out, in, ...); got shape (3,)", [] { init::kaiming_normal(f({3})); }},
  });
}

TEST_CASE("wrong values are named with their place") {
  check_messages({
      {"cross_entropy: target is not a class; got 5 in row 1, want 0 to 4 (or ignore_index -100)",
       [] {
         cross_entropy(f({3, 5}), classes({4, 5, -1}));
       }},
      {"got -1 in row 2",
       [] {
         cross_entropy(f({3, 5}), classes({4, 0, -1}));
       }},
      {"nll_loss: target is not a class; got 7 in row 0",
       [] {
         nll_loss(f({1, 5}), classes({7}));
       }},
      {"embedding: index is outside the table; got 3 at position 1, want 0 to 2",
       [] {
         embedding(classes({0, 3}), f({3, 2}));
       }},
      {"cross_entropy: label_smoothing is not a probability; got 1.5, want 0 to 1",
       [] {
         cross_entropy(f({1, 5}), classes({0}), {.label_smoothing = 1.5});
       }},
      {"dropout: p is not a probability; got -0.1", [] { dropout(f({2}), -0.1); }},
      {"drop_path: p is not a probability; got 2", [] { drop_path(f({2}), 2); }},
      {"attention: dropout is out of range",
       [] {
         attention_packed(f({1, 2, 3, 1, 4}), {.dropout = 1});
       }},
      {"binary_cross_entropy: output is not a probability; got 1.5 at position 1",
       [] {
         binary_cross_entropy(from_vector<float>({0.5f, 1.5f}, {2}), f({2}));
       }},
      {"smooth_l1_loss: beta is negative", [] { smooth_l1_loss(f({2}), f({2}), -1); }},
      {"reduction: unknown name; got meen", [] { reduction_named("meen"); }},
      {"did you mean mean", [] { reduction_named("meen"); }},
      {"truncated_normal: wrong range", [] { init::truncated_normal(f({3}), 0, 1, 2, 1); }},
  });
}

TEST_CASE("wrong dtypes are named") {
  check_messages({
      {"layer_norm: weight has the wrong dtype; got bf16, want f32, the input's dtype",
       [] {
         layer_norm(f({2, 4}), {4}, f({4}, DType::bf16));
       }},
      {"batch_norm: weight has the wrong dtype; got f16, want f32",
       [] {
         batch_norm(f({2, 4}), f({4}), f({4}), f({4}, DType::f16));
       }},
      {"batch_norm: weight has the wrong dtype; got f64, want f16 or f32",
       [] {
         batch_norm(f({2, 4}, DType::f16), f({4}), f({4}), f({4}, DType::f64));
       }},
      {"conv2d: dtypes differ; got f16 for weight, want the input's dtype, f32",
       [] {
         conv2d(f({1, 3, 5, 5}), f({2, 3, 3, 3}, DType::f16));
       }},
      {"attention: dtypes differ; got bf16 for v",
       [] {
         attention(f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4}, DType::bf16));
       }},
      {"cross_entropy: target has the wrong dtype; got bool",
       [] {
         cross_entropy(f({2, 5}), f({2}, DType::boolean));
       }},
      {"cross_entropy: logits has the wrong dtype; got i64",
       [] {
         cross_entropy(f({2, 5}, DType::i64), classes({0, 1}));
       }},
      {"embedding: index has the wrong dtype; got f32",
       [] {
         embedding(f({2}), f({3, 2}));
       }},
      {"softmax: x has the wrong dtype; got i32", [] { softmax(f({2}, DType::i32), 0); }},
      {"softmax: x is undefined", [] { softmax({}, 0); }},
      {"dropout: x is undefined", [] { dropout({}, 0.5); }},
  });
}

TEST_CASE("16-bit inputs may stand beside f32 scales, and small whole numbers may be targets") {
  CHECK(layer_norm(f({2, 4}, DType::bf16), {4}, f({4}), f({4})).dtype() == DType::bf16);
  CHECK(batch_norm(f({2, 4}, DType::f16), f({4}), f({4}), f({4}), f({4})).dtype() == DType::f16);
  CHECK(group_norm(f({2, 4}, DType::f16), 2, f({4}), f({4})).dtype() == DType::f16);
  const Tensor logits = hashed({3, 5}, 1);
  const double want = cross_entropy(logits, classes({4, 0, 1})).item();
  CHECK(cross_entropy(logits, from_vector<int32_t>({4, 0, 1}, {3})).item() == want);
  CHECK(cross_entropy(logits, from_vector<uint8_t>({4, 0, 1}, {3})).item() == want);
}

TEST_CASE("an undefined argument is an error in every function") {
  const Tensor u, x = f({2, 4, 4, 4}), rows = f({2, 4}), ones4 = f({4}), none;
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"softmax", [&] { softmax(u, 0); }},
      {"log_softmax", [&] { log_softmax(u, 0); }},
      {"gelu", [&] { gelu(u, GeluForm::erf); }},
      {"linear_gelu",
       [&] {
         linear_gelu(u, f({4, 4}));
       }},
      {"linear_gelu", [&] { linear_gelu(rows, u); }},
      {"layer_norm", [&] { layer_norm(u, {4}); }},
      {"residual_layer_norm", [&] { residual_layer_norm(u, rows, {4}); }},
      {"residual_layer_norm", [&] { residual_layer_norm(rows, u, {4}); }},
      {"dtype_for_linear", [&] { dtype_for_linear(u); }},
      {"group_norm", [&] { group_norm(u, 2); }},
      {"batch_norm", [&] { batch_norm(u, ones4, ones4); }},
      {"batch_norm", [&] { batch_norm(x, u, ones4); }},
      {"batch_norm", [&] { batch_norm(x, ones4, u); }},
      {"conv2d",
       [&] {
         conv2d(u, f({4, 4, 1, 1}));
       }},
      {"conv2d", [&] { conv2d(x, u); }},
      {"max_pool2d", [&] { max_pool2d(u, 2); }},
      {"avg_pool2d", [&] { avg_pool2d(u, 2); }},
      {"adaptive_avg_pool2d", [&] { adaptive_avg_pool2d(u, 2); }},
      {"attention", [&] { attention(u, x, x); }},
      {"attention", [&] { attention(x, u, x); }},
      {"attention", [&] { attention(x, x, u); }},
      {"attention_packed", [&] { attention_packed(u); }},
      {"embedding",
       [&] {
         embedding(u, f({4, 4}));
       }},
      {"embedding", [&] { embedding(classes({1}), u); }},
      {"dropout", [&] { dropout(u, 0.5); }},
      {"drop_path", [&] { drop_path(u, 0.5); }},
      {"dropout off", [&] { dropout(u, 0.5, false); }},
      {"cross_entropy", [&] { cross_entropy(u, classes({1})); }},
      {"cross_entropy",
       [&] {
         cross_entropy(f({1, 4}), u);
       }},
      {"nll_loss", [&] { nll_loss(u, classes({1})); }},
      {"nll_loss",
       [&] {
         nll_loss(f({1, 4}), u);
       }},
      {"mse_loss", [&] { mse_loss(u, rows); }},
      {"mse_loss", [&] { mse_loss(rows, u); }},
      {"l1_loss", [&] { l1_loss(u, rows); }},
      {"smooth_l1_loss", [&] { smooth_l1_loss(rows, u); }},
      {"binary_cross_entropy", [&] { binary_cross_entropy(u, rows); }},
      {"binary_cross_entropy", [&] { binary_cross_entropy(rows, u); }},
      {"with_logits", [&] { binary_cross_entropy_with_logits(u, rows); }},
      {"with_logits", [&] { binary_cross_entropy_with_logits(rows, u); }},
      {"truncated_normal", [&] { init::truncated_normal(u); }},
      {"normal", [&] { init::normal(u); }},
      {"zeros", [&] { init::zeros(u); }}};
  for (const auto& [name, call] : calls) {
    CAPTURE_PART(name);
    CHECK_THROWS_AS(call(), Error);
  }
}

TEST_CASE("a batch of no samples gives results and gradients of the same rules of shapes") {
  const Tensor x = f({0, 4, 6, 6}).requires_grad_(), rows = f({0, 4}).requires_grad_();
  const Tensor kernel = f({8, 4, 3, 3}).requires_grad_(), scale = f({4}).requires_grad_();
  const std::vector<std::pair<Tensor, Shape>> results = {
      {conv2d(x, kernel), {0, 8, 4, 4}},
      {max_pool2d(x, 2), {0, 4, 3, 3}},
      {avg_pool2d(x, 2), {0, 4, 3, 3}},
      {adaptive_avg_pool2d(x, 2), {0, 4, 2, 2}},
      {softmax(rows, 1), {0, 4}},
      {log_softmax(rows, 1), {0, 4}},
      {gelu(rows, GeluForm::erf), {0, 4}},
      {linear_gelu(rows, f({5, 4})), {0, 5}},
      {layer_norm(rows, {4}, scale), {0, 4}},
      {group_norm(x, 2, scale), {0, 4, 6, 6}},
      {attention(x, x, x), {0, 4, 6, 6}},
      {attention_packed(f({0, 5, 3, 2, 4}).requires_grad_()), {0, 5, 8}},
      {embedding(classes({}), f({3, 4}).requires_grad_()), {0, 4}},
      {dropout(rows, 0.5), {0, 4}},
      {drop_path(rows, 0.5), {0, 4}}};
  for (size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    CHECK(results[i].first.shape() == results[i].second);
    sum(results[i].first).backward();
  }
  CHECK(kernel.grad().shape() == kernel.shape());
  for (const float value : kernel.grad().to_vector<float>()) CHECK(value == 0);
}

TEST_CASE(
    "GPU: nobody waits for the check of targets, and the next read of numbers raises its error" *
    on_gpu()) {
  const auto loss_of = [&](const std::vector<int64_t>& targets, const Tensor& weight) {
    Tensor logits = f({3, 5}).to(gpu);
    logits.requires_grad_();
    const int64_t before = host_reads();
    const Tensor loss = cross_entropy(logits, classes(targets).to(gpu),
                                      {.weight = weight, .reduction = Reduction::sum});
    loss.backward();
    CHECK(host_reads() == before);
    return loss;
  };
  for (const Tensor& weight : {Tensor(), f({5}).to(gpu)}) {
    CHECK(loss_of({4, 0, 2}, weight).item() == doctest::Approx(3 * std::log(5)));
    const Tensor bad = loss_of({4, 5, -1}, weight), unrelated = ones({2}).to(gpu);
    CHECK_THROWS_WITH_AS(
        unrelated.to_vector<float>(),
        "cross_entropy: target is not a class; got 5 in row 1, want 0 to 4 (or ignore_index -100)",
        Error);
    CHECK(unrelated.to_vector<float>() == std::vector<float>{1, 1});  // the error is reported once
    CHECK(std::isnan(bad.item()));
  }
}
