// Whole models against timm and PyTorch: logits, loss and gradients, exact and under bf16 autocast.
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/criterion.h"
#include "core/nn/models.h"
#include "core/nn/models/resnet.h"
#include "core/nn/models/vit.h"
#include "tests/capture_part.h"
#include "tests/error_of.h"
#include "tests/nn/golden.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

Model made(const std::string& name) {
  if (name == "resnet20") return models::resnet20({.num_classes = 10});
  if (name == "vit_tiny_patch16_224") return models::vit(name, {.num_classes = 101});
  return models::vit("vit_tiny_patch16_224", {.num_classes = 10,
                                              .img_size = 32,
                                              .patch_size = 8,
                                              .embed_dim = 48,
                                              .depth = 2,
                                              .num_heads = 3});
}

// Sets the parameters of `fill` in make_nn.py.
void fill(const Model& model) {
  const NoGradGuard no_grad;
  uint32_t seed = 0;
  for (auto& [name, p] : model.parameters()) {
    const bool small = p.ndim() < 2 || contains(name, "token") || contains(name, "embed");
    const double scale = small ? 0.05 : 1.5 / std::sqrt(static_cast<double>(p.numel() / p.size(0)));
    const bool is_scale =
        contains(name, "weight") && (contains(name, "norm") || contains(name, "bn"));
    const Tensor wide = untracked::cast(hashed(p.shape(), seed++), DType::f64);
    p.copy_(wide * scale + (is_scale ? 1.0 : 0.0));
  }
}

struct Step {
  Tensor logits, loss;
};

Step step(const Model& model, const Json& golden, Device device = {}) {
  const Tensor image = hashed(shape_of(golden["image"]), 1000).to(device);
  const int64_t n = image.size(0), classes = golden["logits"].size() / n;
  std::vector<int64_t> target;
  for (int64_t i = 0; i < n; ++i) target.push_back(i * 3 % classes);
  model.zero_grad();
  Step step;
  step.logits = model(image);
  step.loss = CrossEntropyLoss()(step.logits, from_vector(target, {n}).to(device));
  step.loss.backward();
  return step;
}

OpPolicy cpu_autocast() {
  OpPolicy policy{.lower = DType::bf16, .name = "test"};
  for (Op op : {Op::matmul, Op::linear, Op::conv2d, Op::attention})
    policy.set(op, OpClass::lower_precision);
  for (Op op : {Op::cross_entropy, Op::nll_loss}) policy.set(op, OpClass::fp32);
  for (Op op : {Op::cat, Op::stack}) policy.set(op, OpClass::widest);
  return policy;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(squares / norm);
}

void check_golden_numbers(const Json& golden, Device device) {
  CAPTURE(golden["name"].get<std::string>());
  const Model model = made(golden["name"]);
  fill(model);
  model->to(device);
  const Step result = step(model, golden, device);
  CHECK(largest_error(result.logits.to_vector<double>(), golden["logits"]) < 2e-5);
  CHECK(result.loss.item() == doctest::Approx(golden["loss"].get<double>()).epsilon(2e-6));
  CHECK(model.parameters().size() == golden["grads"].size());
  for (const auto& [name, p] : model.parameters()) {
    CAPTURE_PART(name);
    REQUIRE(golden["grads"].contains(name));
    const Json& want = golden["grads"][name];
    const std::vector<double> g = p.grad().to_vector<double>();
    double squares = 0;
    for (double value : g) squares += value * value;
    CHECK(std::sqrt(squares) == doctest::Approx(want["norm"].get<double>()).epsilon(2e-5));
    std::vector<double> first = want["first"];
    const std::vector<double> start(g.begin(), g.begin() + static_cast<long>(first.size()));
    CHECK(largest_error(start, first) < 2e-5);
  }
}

}  // namespace

TEST_CASE("models give timm's and PyTorch's logits, loss and gradients") {
  for (const Json& golden : read_golden("models.json")) check_golden_numbers(golden, {});
}

TEST_CASE("GPU: models give timm's and PyTorch's logits, loss and gradients" * on_gpu()) {
  for (const Json& golden : read_golden("models.json"))
    if (golden["name"] != "vit_tiny_patch16_224")  // too large for the emulated GPU
      check_golden_numbers(golden, {DeviceType::cuda, 0});
}

TEST_CASE("under bf16 autocast models are as near to exact numbers as PyTorch's are") {
  for (const Json& golden : read_golden("models.json")) {
    CAPTURE(golden["name"].get<std::string>());
    const Model model = made(golden["name"]);
    fill(model);
    step(model, golden);
    std::vector<std::vector<double>> exact;
    for (const auto& [name, p] : model.parameters()) exact.push_back(p.grad().to_vector<double>());
    const OpPolicy policy = cpu_autocast();
    Step result;
    {
      const PolicyScope scope(&policy);
      result = step(model, golden);
    }
    CHECK(result.logits.dtype() == DType::bf16);
    CHECK(result.loss.dtype() == DType::f32);
    const std::vector<double> logits = golden["logits"], torch_logits = golden["bf16"]["logits"];
    CHECK(distance(result.logits.to_vector<double>(), logits) <
          2 * distance(torch_logits, logits) + 1e-3);
    size_t i = 0;
    double ours = 0, theirs = 0;
    for (const auto& [name, p] : model.parameters()) {
      CAPTURE_PART(name);
      const double error = distance(p.grad().to_vector<double>(), exact[i++]);
      const double torch_error = golden["bf16"]["grad_error"][name];
      CHECK(p.grad().dtype() == DType::f32);
      CHECK(error < 2.5 * torch_error + 1e-3);
      ours += error;
      theirs += torch_error;
    }
    CHECK(ours < 1.2 * theirs);
  }
}

TEST_CASE("vit has timm's parameter names, shapes and initial distributions") {
  manual_seed(1);
  const Model model = models::vit("vit_tiny_patch16_224", {.num_classes = 101, .drop_rate = 0.1});
  const Parameters parameters = model.parameters();
  CHECK(model->parameter_count() == 5543909);
  CHECK(parameters.size() == 152);
  CHECK(parameters[0].name == "cls_token");
  CHECK(parameters[1].name == "pos_embed");
  CHECK(parameters[2].name == "patch_embed.proj.weight");
  CHECK(parameters[6].name == "blocks.0.attn.qkv.weight");
  CHECK(parameters.back().name == "head.bias");
  const auto deviation = [](const Tensor& x) {
    return norm(x).item() / std::sqrt(double(x.numel()));
  };
  for (const auto& [name, p] : parameters) {
    CAPTURE_PART(name);
    const NoGradGuard no_grad;
    if (name == "cls_token") CHECK(deviation(p) == doctest::Approx(1e-6).epsilon(0.3));
    if (name == "pos_embed" || contains(name, "qkv.weight") || contains(name, "fc1.weight"))
      CHECK(deviation(p) == doctest::Approx(0.02).epsilon(0.03));
    if (contains(name, "norm") && contains(name, "weight")) CHECK(amin(p).item() == 1);
    if (contains(name, ".bias") && name != "patch_embed.proj.bias") CHECK(deviation(p) == 0);
    if (name == "patch_embed.proj.weight")
      CHECK(amax(abs(p)).item() == doctest::Approx(1 / std::sqrt(768.0)).epsilon(0.01));
  }
}

TEST_CASE("vit takes every name, and options override what a name fixes") {
  CHECK(models::vit_names().size() == 7);
  CHECK_THROWS_WITH_AS(models::vit("vit_tiny_patch16_225"),
                       doctest::Contains("did you mean vit_tiny_patch16_224"), Error);
  const Model model = models::vit(
      "vit_base_patch32_224",
      {.num_classes = 0, .img_size = Size2d(64, 32), .embed_dim = 32, .depth = 1, .num_heads = 2});
  CHECK(model(zeros({2, 3, 64, 32})).shape() == Shape{2, 32});
  CHECK_THROWS_WITH_AS(model(zeros({2, 3, 32, 64})), doctest::Contains("want (n, 3, 64, 32)"),
                       Error);
  CHECK_THROWS_WITH_AS(models::vit("vit_tiny_patch16_224", {.num_heads = 5}),
                       doctest::Contains("5 heads of 192"), Error);
}

TEST_CASE("hooks inside a vit block see the unfused tensors and change nothing") {
  manual_seed(2);
  const Model model = models::vit("vit_tiny_patch16_224", {.num_classes = 5,
                                                           .img_size = 32,
                                                           .patch_size = 16,
                                                           .embed_dim = 24,
                                                           .depth = 2,
                                                           .num_heads = 3});
  const Tensor x = hashed({2, 3, 32, 32}, 5);
  const auto plain = model(x).to_vector<double>();
  int calls = 0;
  for (auto& [name, module] : model->named_modules())
    module->register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
      ++calls;
      return Tensor();
    });
  CHECK(largest_error(model(x).to_vector<double>(), plain) < 1e-6);
  const int modules = static_cast<int>(model->named_modules().size());
  CHECK(calls == modules - 1);  // all except `blocks`, whose modules are called one by one
}

TEST_CASE("dropout rates of a vit act in training only") {
  manual_seed(3);
  const Model model = models::vit("vit_tiny_patch16_224", {.num_classes = 5,
                                                           .drop_rate = 0.2,
                                                           .attn_drop_rate = 0.2,
                                                           .proj_drop_rate = 0.2,
                                                           .pos_drop_rate = 0.2,
                                                           .drop_path_rate = 0.3,
                                                           .img_size = 32,
                                                           .patch_size = 16,
                                                           .embed_dim = 24,
                                                           .depth = 2,
                                                           .num_heads = 3});
  const Tensor x = hashed({2, 3, 32, 32}, 5);
  CHECK(model(x).to_vector<double>() != model(x).to_vector<double>());
  manual_seed(4);
  const auto first = model(x).to_vector<double>();
  manual_seed(4);
  CHECK(model(x).to_vector<double>() == first);
  model.eval();
  CHECK(model(x).to_vector<double>() == model(x).to_vector<double>());
}

TEST_CASE("mlp stacks linear layers with ReLU between them") {
  const Model model = models::mlp({6, 5, 3});
  CHECK(model(zeros({2, 7, 6})).shape() == Shape{2, 7, 3});
  CHECK(model.parameters().size() == 4);
  CHECK(model.parameters()[2].name == "2.weight");
  CHECK_THROWS_AS(models::mlp({6}), Error);
}
