// fp8 as a strategy: which layers run in 8 bits, options, errors, and training.
#include "core/nn/functional.h"
#include "core/nn/models.h"
#include "core/nn/models/vit.h"
#include "core/nn/sequence_layers.h"
#include "core/optim/optimizers.h"
#include "tests/mixed_precision/fp8_trial.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace booster;
using namespace booster::testing;
using doctest::Contains;

namespace {

using Numbers = std::vector<double>;

Model classifier() {
  manual_seed(7);
  return models::mlp({32, 64, 64, 16});
}

// Learnable classes with noisy labels, so that the final loss is far from 0.
struct Task {
  Tensor x, labels;
};
Task task() {
  Generator generator(9);
  const Tensor x = uniform({256, 32}, -1, 1, {}, generator);
  const Tensor truth = uniform({32, 16}, -1, 1, {}, generator);
  const Tensor noise = uniform({256, 16}, -2, 2, {}, generator);
  return {x, argmax(matmul(x, truth) + noise, 1)};
}

double final_loss(Precision& precision) {
  const Task given = task();
  Model model = classifier();
  Optimizer optimizer = AdamW(model.parameters(), {.lr = 3e-3, .weight_decay = 0.01});
  precision.prepare(model, optimizer);
  double loss_value = 0;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const PolicyScope numbers(precision.policy({}));
      const Tensor y = model(given.x);
      end_forward(precision);
      loss = cross_entropy(y, given.labels);
    }
    in_pass(precision, optimizer, [&] { booster::backward(loss); });
    const Verdict verdict = precision.inspect(optimizer);
    if (verdict.found_inf.defined()) CHECK(verdict.found_inf.item() == 0);
    optimizer.step();
    precision.update(verdict);
    loss_value = loss.item();
  }
  return loss_value;
}

}  // namespace

TEST_CASE("projections of attention run in 8 bits, also one third at a time") {
  manual_seed(5);
  auto attention =
      std::make_shared<MultiheadAttention>(32, 2, MultiheadAttentionOptions{.batch_first = true});
  Trial t = trial(Model(attention), {.scaling = "current"});
  CHECK(t.precision.layers() == std::vector<std::string>{"in_proj", "out_proj"});
  CHECK(t.precision.notes().empty());
  const Tensor x = batch(0, 32);
  const PolicyScope numbers(t.precision.policy({}));
  const Numbers packed = (*attention)(x).to_vector<double>();
  const Numbers thirds = (*attention)(x, x, x).output.to_vector<double>();
  double largest_difference = 0, largest_value = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    largest_difference = std::max(largest_difference, std::abs(packed[i] - thirds[i]));
    largest_value = std::max(largest_value, std::abs(packed[i]));
  }
  CHECK(largest_difference < 0.1 * largest_value);  // each third has its own scale
  CHECK(largest_difference > 0);
  const Numbers exact = [&] {
    const PolicyScope none(nullptr);
    return (*attention)(x).to_vector<double>();
  }();
  CHECK(exact != packed);
}

TEST_CASE("layers whose sizes do not fit run in bf16 and are named with the reason") {
  const Model vit =
      models::vit("vit_tiny_patch16_224", {.num_classes = 10, .img_size = 32, .depth = 1});
  const Trial t = trial(vit, {});
  CHECK(t.precision.layers() == std::vector<std::string>{"blocks.0.attn.qkv", "blocks.0.attn.proj",
                                                         "blocks.0.mlp.fc1", "blocks.0.mlp.fc2"});
  REQUIRE(t.precision.notes().size() == 1);
  CHECK(t.precision.notes()[0] ==
        "fp8: head (192 in, 10 out) runs in bf16: 8-bit matrix units need sizes that are "
        "multiples of 16");
  // No layer fits: everything runs as in bf16.
  Trial none = trial(models::mlp({6, 10, 4}), {});
  CHECK(
      none.precision.notes() ==
      std::vector<std::string>{"fp8: 0 (6 in, 10 out), 2 (10 in, 4 out) run in bf16: 8-bit matrix "
                               "units need sizes that are multiples of 16",
                               "fp8: no layer runs in 8 bits"});
  CHECK(forward(none, uniform({4, 6}, -1, 1)).dtype() == DType::bf16);
}

TEST_CASE("layers can be kept in bf16: by name, by the name of a module, the first and the last") {
  const Model vit =
      models::vit("vit_tiny_patch16_224", {.num_classes = 16, .img_size = 32, .depth = 2});
  const Trial t =
      trial(vit, {.exclude = {"blocks.0", "blocks.1.mlp.fc1"}, .first_and_last_in_bf16 = true});
  CHECK(t.precision.layers() ==
        std::vector<std::string>{"blocks.1.attn.qkv", "blocks.1.attn.proj", "blocks.1.mlp.fc2"});
  CHECK(t.precision.notes().back() == "fp8: head runs in bf16: first_and_last_in_bf16");
  CHECK_THROWS_WITH_AS(trial(vit, {.exclude = {"blocks.1.mlp.fc3"}}),
                       Contains("did you mean blocks.1.mlp.fc"), Error);
}

TEST_CASE("wrong options are refused with the legal ones") {
  CHECK_THROWS_WITH_AS(FP8({.scaling = "mxfp8"}), Contains("delayed, current"), Error);
  CHECK_THROWS_WITH_AS(FP8({.format = "e5m2"}), Contains("too few digits"), Error);
  CHECK_THROWS_WITH_AS(FP8({.amax_history_len = 0}), Contains("at least 1"), Error);
  CHECK_THROWS_WITH_AS(FP8({.amax_compute_algo = "mean"}), Contains("most_recent"), Error);
  CHECK_THROWS_WITH_AS(FP8({.margin = -1}), Contains("margin"), Error);
}

TEST_CASE("an infinity or nan that a cast would hide is found") {
  for (const char* scaling : {"delayed", "current"})
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      Trial t = trial(Model(std::make_shared<Linear>(16, 16, LinearOptions{.bias = false})),
                      {.scaling = scaling});
      const auto step = [&](double value) {
        const Tensor y = forward(t, full({4, 16}, 1));
        t.precision.abandon(t.optimizer);
        backward(t, y, bf16(full({4, 16}, value)));
        const Verdict verdict = t.precision.inspect(t.optimizer);
        const double found = verdict.found_inf.item();
        t.precision.update(verdict);
        return found != 0;
      };
      CHECK_FALSE(step(1));
      CHECK(step(bad));
      CHECK_FALSE(step(1));
    }
}

TEST_CASE("evaluation does not count for the scales") {
  Trial t = trial(Model(std::make_shared<Linear>(16, 16)), {});
  const auto states = [&] {
    Numbers all;
    for (const auto& [name, tensor] : t.precision.state_tensors())
      if (name != "model.fp8.weight.amax")  // a weight's magnitude is the same in evaluation
        for (const double x : tensor.to_vector<double>()) all.push_back(x);
    return all;
  };
  const Numbers before = states();
  {
    const NoGradGuard no_grad;
    forward(t, full({4, 16}, 100));
  }
  CHECK(states() == before);
}

TEST_CASE("a small net trains to within 2 % of the final loss of fp32") {
  FP32Precision fp32;
  const double want = final_loss(fp32);
  CHECK(want > 0.1);  // otherwise the comparison is meaningless
  for (const char* scaling : {"delayed", "current"}) {
    CAPTURE(scaling);
    FP8 fp8({.scaling = scaling});
    CHECK(final_loss(fp8) == doctest::Approx(want).epsilon(0.02));
    CHECK(fp8.layers().size() == 3);
  }
}
