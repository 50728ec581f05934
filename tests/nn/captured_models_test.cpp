// Forward and backward of models, captured and replayed with new batches, are bitwise equal to
// uncaptured work.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/models/gpt2.h"
#include "core/nn/models.h"
#include "core/nn/models/resnet.h"
#include "core/nn/models/vit.h"
#include "core/tensor/capture/captured_work.h"
#include "core/tensor/random/random.h"
#include "core/tensor/tensor.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <functional>

using namespace booster;

namespace {

using Batch = std::function<Tensor()>;  // from the next draws of the default generator

std::vector<double> numbers_of(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& each : tensors) {
    const std::vector<double> numbers = each.to_vector<double>();
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

struct Trained {
  Model model;
  Tensor x, target, loss = {};

  std::vector<Tensor> run(const OpPolicy* policy) {
    model.zero_grad();
    const Tensor logits = [&] {
      const PolicyScope scope(policy);
      return model(x);
    }();
    const Tensor rows = reshape(cast(logits, DType::f32), {-1, logits.size(-1)});
    loss = cross_entropy(rows, reshape(target, {-1}));
    loss.backward();
    return {loss};
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors = {loss};
    for (const auto& parameter : model.parameters()) tensors.push_back(parameter.tensor.grad());
    for (const auto& buffer : model->buffers()) tensors.push_back(buffer.tensor);
    return tensors;
  }
};

// Compares the same model on the same batches, replayed and uncaptured.
void check_replays(const std::function<Model()>& make, const Batch& batch, const Batch& targets,
                   const OpPolicy* policy = nullptr) {
  const auto made = [&] {
    manual_seed(5);
    Trained trained{make(), batch().to(gpu), targets().to(gpu)};
    trained.model->to(gpu);
    return trained;
  };
  Trained plain = made(), replayed = made();
  for (Trained* each : {&plain, &replayed}) each->run(policy);
  CapturedWork captured = capture(gpu, [&] { return replayed.run(policy); });
  const std::vector<Tensor> places = replayed.all();
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    manual_seed(60 + static_cast<uint64_t>(step));
    const Tensor x = batch(), target = targets();
    for (Trained* each : {&plain, &replayed}) {
      const NoGradGuard guard;
      each->x.copy_(x);
      each->target.copy_(target);
      // A minimal optimizer step.
      for (const auto& parameter : each->model.parameters())
        if (Tensor value = parameter.tensor; step > 0)
          value.add_(parameter.tensor.grad(), -0.125);
    }
    const RandomState before = default_generator().state();
    captured.replay();
    const RandomState behind = default_generator().state();
    default_generator().set_state(before);
    plain.run(policy);
    CHECK(default_generator().state() == behind);
    for (const Tensor& each : places) REQUIRE(each.defined());
    CHECK(numbers_of(places) == numbers_of(plain.all()));
    CHECK(replayed.all()[1].same_body(places[1]));
  }
}

Batch normals(Shape shape) {
  return [=] { return normal(shape); };
}
Batch numbers_below(int64_t end, Shape shape) {
  return [=] { return randint(0, end, shape); };
}

models::Gpt2Options gpt_options(double drop) {
  return {.vocab_size = 31, .n_positions = 12, .embd_pdrop = drop, .attn_pdrop = drop,
          .resid_pdrop = drop, .n_embd = 24, .n_layer = 2, .n_head = 3};
}
Model small_vit(double drop) {
  models::VitOptions options = {.num_classes = 5, .drop_rate = drop, .attn_drop_rate = drop,
                                .proj_drop_rate = drop, .drop_path_rate = drop};
  options.img_size = Size2d{16, 16};
  options.patch_size = 8;
  options.embed_dim = 24;
  options.depth = 2;
  options.num_heads = 3;
  return models::vit("vit_tiny_patch16_224", options);
}

}  // namespace

TEST_CASE("GPU: an MLP's passes are replayed with new batches" * on_gpu()) {
  check_replays([] { return models::mlp({6, 16, 4}); }, normals({5, 6}), numbers_below(4, {5}));
}

TEST_CASE("GPU: a ResNet's passes and running statistics are replayed" * on_gpu()) {
  check_replays([] { return models::resnet20({.num_classes = 5}); },
                normals({2, 3, 8, 8}), numbers_below(5, {2}));
}

TEST_CASE("GPU: a vision transformer's passes are replayed, with and without dropout" * on_gpu()) {
  for (const double drop : {0.0, 0.3})
    check_replays([=] { return small_vit(drop); }, normals({2, 3, 16, 16}), numbers_below(5, {2}));
}

TEST_CASE("GPU: GPT-2's passes are replayed, with and without dropout" * on_gpu()) {
  for (const double drop : {0.0, 0.3})
    check_replays([=] { return models::gpt2("gpt2", gpt_options(drop)); },
                  numbers_below(31, {2, 8}), numbers_below(31, {2, 8}));
}

TEST_CASE("GPU: under a policy of 16 bits a replay converts the parameters as they are then" *
          on_gpu()) {
  OpPolicy policy{.device = DeviceType::cuda, .lower = DType::bf16, .name = "test"};
  policy.set(Op::linear, OpClass::lower_precision);
  check_replays([] { return models::mlp({6, 16, 4}); }, normals({5, 6}), numbers_below(4, {5}),
                &policy);
  // A policy region that began earlier is not notified of the recording.
  Trained trained{models::mlp({6, 16, 4}), normal({5, 6}).to(gpu), numbers_below(4, {5})().to(gpu)};
  trained.model->to(gpu);
  trained.run(&policy);
  const PolicyScope scope(&policy);
  CHECK(contains(error_of([&] { capture(gpu, [&] { return trained.run(&policy); }); }),
                 "a region began before the capture"));
}

TEST_CASE("GPU: an index out of range in a replay is told with the next read" * on_gpu()) {
  const Tensor table = normal({7, 3}).to(gpu), classes = normal({4, 5}).to(gpu);
  Tensor rows = zeros({4}, {DType::i64, gpu}), picked = zeros({4}, {DType::i64, gpu}),
         target = zeros({4}, {DType::i64, gpu});
  const auto work = [&] {
    return std::vector<Tensor>{embedding(rows, table), index_select(table, 0, picked),
                               cross_entropy(classes, target)};
  };
  work();
  CapturedWork captured = capture(gpu, work);
  const auto read = [&] { return error_of([&] { captured.results()[0].to_vector<float>(); }); };
  captured.replay();
  CHECK(read().empty());
  const std::pair<Tensor*, const char*> indices[] = {{&rows, "embedding: index is outside"},
                                                     {&picked, "index_select: index out of range"},
                                                     {&target, "target is not a class"}};
  for (const auto& [index, words] : indices) {
    index->fill_(9);
    captured.replay();
    index->fill_(1);
    captured.replay();  // valid again, but the earlier failure must be reported
    CHECK(contains(read(), words));
    captured.replay();
    CHECK(read().empty());
  }
}

TEST_CASE("GPU: an index out of range in a replay leaves other memory alone, backward too" *
          on_gpu()) {
  const Tensor table = normal({7, 3}).to(gpu).requires_grad_();
  Tensor rows = zeros({4}, {DType::i64, gpu}), places = zeros({4, 3}, {DType::i64, gpu});
  const Tensor classes = normal({4, 7}).to(gpu).requires_grad_();
  const auto work = [&] {
    table.set_grad({});
    classes.set_grad({});
    cross_entropy(classes, rows).backward();
    const Tensor y = embedding(rows, table) + index_select(table, 0, rows) +
                     gather(table, 0, places);
    const Tensor moved = scatter_add(table, 0, places, y) + scatter(table, 0, places, y);
    sum(moved * moved).backward();
    return std::vector<Tensor>{moved};
  };
  work();
  CapturedWork captured = capture(gpu, work);
  for (const int64_t wrong : {int64_t{7}, int64_t{-1}, int64_t{1} << 60, -(int64_t{1} << 60)}) {
    CAPTURE(wrong);
    rows.copy_(full({4}, static_cast<double>(wrong), {DType::i64}));
    places.copy_(full({4, 3}, static_cast<double>(wrong), {DType::i64}));
    captured.replay();
    const auto read = [&] { return error_of([&] { captured.results()[0].to_vector<float>(); }); };
    CHECK(contains(read(), "found in a replay of captured work"));
    CHECK(read() == "");
  }
  rows.fill_(6);
  places.fill_(2);
  captured.replay();
  const std::vector<float> replayed = captured.results()[0].to_vector<float>(),
                           gradient = table.grad().to_vector<float>();
  CHECK(replayed == work()[0].to_vector<float>());
  CHECK(gradient == table.grad().to_vector<float>());
  CHECK(contains(
      error_of([&] {
        capture(gpu, [&] {
          return std::vector<Tensor>{index_select(zeros({0, 3}, {.device = gpu}), 0, rows)};
        });
      }),
      "an index into an empty tensor"));
}

TEST_CASE("GPU: work that was not run before is refused where the host prepares something" *
          on_gpu()) {
  const Tensor x = normal({3, 37}).to(gpu), weight = normal({41, 37}).to(gpu);
  const auto work = [&] { return std::vector<Tensor>{linear(x, weight, {})}; };
  CHECK(contains(error_of([&] { capture(gpu, work); }), "want a plain run of the work"));
  const std::vector<float> plain = work()[0].to_vector<float>();
  CapturedWork captured = capture(gpu, work);
  captured.replay();
  CHECK(captured.results()[0].to_vector<float>() == plain);
}
