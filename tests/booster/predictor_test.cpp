// Predictors: what they compute, in every strategy and on several threads at once; where weights
// come from; what they refuse.
#include "booster/booster.h"
#include "core/nn/models/resnet.h"
#include "platform/threads.h"
#include "tests/booster/temporary_folder.h"
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"
#include "tests/strategy_levels.h"

#include <doctest/doctest.h>

#include <barrier>
#include <cstring>
#include <random>
#include <thread>

using namespace booster;
using namespace booster::testing;
using doctest::Contains;

namespace {

using Bits = std::vector<char>;

Bits bits_of(const Tensor& x) {
  const Tensor dense = untracked::contiguous(untracked::to(x, Device{}));
  Bits bits(static_cast<size_t>(dense.bytes()));
  std::memcpy(bits.data(), dense.data(), bits.size());
  return bits;
}

// A model, and a maker of inputs of `rows` rows.
struct Subject {
  Model (*make)();
  Shape sample;
};

Model make_vit() {
  return models::vit("vit_tiny_patch16_224", {.num_classes = 16,
                                              .drop_rate = 0.5,
                                              .img_size = Size2d(16, 16),
                                              .patch_size = 8,
                                              .embed_dim = 32,
                                              .depth = 2,
                                              .num_heads = 2});
}

// Linear and convolutional layers, with all kinds of tensors that passes read: frozen parameters
// and statistics too.
Model make_convolutions() {
  Model model = Sequential{
      Conv2d(3, 16, 3, {.padding = 1}), BatchNorm2d(16), ReLU(),        Dropout(0.5), Flatten(),
      Linear(16 * 16 * 16, 32),         GELU(),          Linear(32, 16)};
  model->named_modules().back().second->freeze();
  return model;
}

const Subject subjects[] = {{make_vit, {3, 16, 16}},
                            {make_convolutions, {3, 16, 16}},
                            {[] {
                               return models::mlp({32, 48, 16});
                             },
                             {32}},
                            {[] { return models::resnet20(); }, {3, 32, 32}}};

Model drawn_model(const Subject& subject, unsigned seed) {
  manual_seed(seed);
  return subject.make();
}

Tensor drawn_input(const Subject& subject, int64_t rows, unsigned seed) {
  Generator generator(seed);
  std::vector<int64_t> sizes = {rows};
  for (const int64_t size : subject.sample) sizes.push_back(size);
  return uniform(Shape(sizes), -1, 1, {}, generator);
}

// Runs `calls` passes on each of `threads` threads, which begin together. Returns the outputs.
std::vector<Bits> outputs_of(const Predictor& predict, const std::vector<Tensor>& inputs,
                             int threads, int calls) {
  std::vector<Bits> outputs(inputs.size() * static_cast<size_t>(threads * calls));
  std::barrier begin(threads);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      begin.arrive_and_wait();
      for (size_t i = static_cast<size_t>(t); i < outputs.size(); i += static_cast<size_t>(threads))
        outputs[i] = bits_of(predict(inputs[i % inputs.size()]));
    });
  for (std::thread& thread : all) thread.join();
  return outputs;
}

// Two inputs, two outputs.
class GatedSum : public Module {
 public:
  GatedSum() : Module("GatedSum") {}
  Linear& linear = add<Linear>("linear", 16, 16);

 private:
  Tensors forward_named(const Tensors& x) override {
    const Tensor y = linear(x["x"]);
    return {{"y", y * x["mask"].to(y.dtype())}, {"total", sum(y)}};
  }
};

}  // namespace

TEST_CASE("a predictor gives the bits of the boosted model in evaluation, in every strategy") {
  for (const StrategyLevel& level : strategy_levels())
    for (const Subject& subject : subjects) {
      CAPTURE(level.name);
      CAPTURE(subject.sample);
      const Tensor x = drawn_input(subject, 3, 1);
      const Model model = drawn_model(subject, 5);
      // Scales of a training's magnitudes do not come with weights.
      Booster booster({.mixed_precision = level.make});
      if (std::string(level.name) == "fp8")
        booster = Booster({.mixed_precision = FP8MixedPrecision({.scaling = "current"})});
      auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
      net.eval();
      Tensor wanted;
      {
        const NoGradGuard no_grad;
        wanted = net(x);
      }
      const Predictor predict(drawn_model(subject, 5), {.mixed_precision = level.make});
      for (int call = 0; call < 2; ++call) {
        const Tensor got = predict(x);
        CHECK(got.dtype() == wanted.dtype());
        CHECK(bits_of(got) == bits_of(wanted));
        CHECK(!got.requires_grad());
      }
    }
}

TEST_CASE("drawn: threads that share a predictor get the bits of one thread") {
  const std::vector<StrategyLevel>& levels = strategy_levels();
  for (const unsigned seed : testing::draws(660)) {
    std::mt19937 random(seed);
    const StrategyLevel& level = levels[random() % levels.size()];
    const Subject& subject = subjects[random() % std::size(subjects)];
    const int threads = std::array{1, 2, 3, 8}[random() % 4];
    CAPTURE(seed);
    CAPTURE(level.name);
    CAPTURE(threads);
    std::vector<Tensor> inputs;
    for (unsigned i = 0; i < 3; ++i)
      inputs.push_back(drawn_input(subject, 1 + static_cast<int64_t>(random() % 4), seed + i));
    const PredictorOptions options = {.mixed_precision = level.make, .threads = 1};
    const Predictor alone(drawn_model(subject, seed), options);
    std::vector<Bits> wanted;
    for (const Tensor& x : inputs) wanted.push_back(bits_of(alone(x)));
    // The first pass makes the copies of weights: all threads are in it.
    const Predictor shared(drawn_model(subject, seed), options);
    const std::vector<Bits> got = outputs_of(shared, inputs, threads, 2);
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == wanted[i % wanted.size()]);
  }
}

TEST_CASE("a predictor takes and gives named tensors") {
  for (const char* precision : {"fp32", "bf16", "fp8"}) {
    CAPTURE(precision);
    const Predictor predict(GatedSum(), {.mixed_precision = precision});
    const Tensor mask = zeros({4, 1}, {.dtype = DType::i64});
    const Tensors y = predict({{"x", ones({4, 16})}, {"mask", mask}});
    CHECK(sum(abs(y["y"])).item() == 0);
    CHECK(y["total"].numel() == 1);
  }
  const Predictor one(models::mlp({4, 2}));
  CHECK(Tensors(one(Tensors(ones({3, 4})))).only().shape() == Shape{3, 2});
}

TEST_CASE("a pass changes no weight, no mode, no random stream and no setting of its thread") {
  for (const StrategyLevel& level : strategy_levels()) {
    CAPTURE(level.name);
    const Model model = drawn_model(subjects[1], 3);
    const Predictor predict(model, {.mixed_precision = level.make, .threads = 1});
    const Tensor x = drawn_input(subjects[1], 2, 3);
    std::vector<uint32_t> versions;
    for (const auto& [name, tensor] : model.state_dict()) versions.push_back(tensor.version());
    const RandomState before = default_generator().state();
    const kernels::ThreadCountScope three(3);
    int threads_inside = 0;
    model->register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
      threads_inside = kernels::thread_count();
      CHECK(!grad_enabled());
      return Tensor();
    });
    predict(x);
    CHECK(threads_inside == 1);
    CHECK(kernels::thread_count() == 3);
    CHECK(grad_enabled());
    CHECK(current_policy() == nullptr);
    CHECK(default_generator().state().offset == before.offset);
    size_t i = 0;
    for (const auto& [name, tensor] : model.state_dict()) {
      CHECK(tensor.version() == versions[i++]);
      CHECK(!tensor.grad().defined());
    }
  }
}

TEST_CASE("a predictor loads what save_model and save_training write, and a training's newest") {
  const TemporaryFolder folder;
  manual_seed(1);
  const Model model = models::mlp({8, 16, 4});
  const Choice<Precision> precision = FP16ApexMixedPrecision({.verbosity = 0});
  Booster booster({.mixed_precision = precision});
  const BoostedPair boosted = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  save_training(folder / "run", boosted, {.step = 1});
  {
    const NoGradGuard no_grad;
    for (const auto& [name, tensor] : model.state_dict()) tensor.detach().add_(ones({1}));
  }
  save_training(folder / "run", boosted, {.step = 2});
  booster.save_model(boosted.model, folder / "one.safetensors");
  booster.save_model(boosted.model, folder / "many", {.shard = true, .size_per_shard = 1e-4});
  const Tensor x = uniform({2, 8}, -1, 1);
  boosted.model.eval();
  const Bits wanted = bits_of(boosted.model(x).detach());
  for (const char* path : {"one.safetensors", "many", "run/step-000000002", "run"}) {
    CAPTURE(path);
    manual_seed(99);
    const Predictor predict(models::mlp({8, 16, 4}), folder / path, {.mixed_precision = precision});
    CHECK(bits_of(predict(x)) == wanted);
  }
  const Predictor old(models::mlp({8, 16, 4}), folder / "run/step-000000001",
                      {.mixed_precision = precision});
  CHECK(bits_of(old(x)) != wanted);
  const auto error = [&](const std::vector<int64_t>& sizes, const char* path) {
    return error_of([&] { Predictor predict(models::mlp(sizes), folder / path); });
  };
  CHECK(contains(error({8, 16, 5}, "run"), "2.weight"));
  CHECK(contains(error({8, 4}, "none"), "none"));
}

TEST_CASE("load_model of a plain model is all or nothing, and returns the names that differ") {
  const TemporaryFolder folder;
  manual_seed(1);
  const Model saved = models::mlp({4, 3, 2});
  TensorMap weights;
  for (const auto& [name, tensor] : saved.state_dict()) weights.emplace(name, tensor);
  save_safetensors(folder / "w.safetensors", weights);
  const Model other = models::mlp({4, 3});
  const Bits before = bits_of(other.parameters()[0].tensor);
  CHECK(contains(error_of([&] { load_model(other, folder / "w.safetensors"); }), "2.weight"));
  CHECK(bits_of(other.parameters()[0].tensor) == before);
  const NameDifferences differences = load_model(other, folder / "w.safetensors", false);
  CHECK(differences.unexpected == std::vector<std::string>{"2.bias", "2.weight"});
  CHECK(bits_of(other.parameters()[0].tensor) == bits_of(saved.parameters()[0].tensor));
}

TEST_CASE("a predictor of a lazy model works, and sees weights that change between calls") {
  Model model;
  {
    const LazyInit lazy;
    model = models::mlp({16, 16});
  }
  const Predictor predict(model, {.mixed_precision = "bf16"});
  const Tensor x = ones({1, 16});
  const Bits before = bits_of(predict(x));
  {
    const NoGradGuard no_grad;
    model.parameters()[0].tensor.detach().mul_(2);
  }
  const Bits after = bits_of(predict(x));
  CHECK(after != before);
  CHECK(bits_of(Predictor(model, {.mixed_precision = "bf16"})(x)) == after);
}

TEST_CASE("a predictor refuses boosted models, training mode and wrong options") {
  const Model model = models::mlp({4, 2});
  {
    Booster booster;
    const BoostedPair boosted = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    CHECK(contains(error_of([&] { Predictor predict(model); }), "0.weight is boosted"));
  }
  const Predictor predict(model);
  CHECK(!model->training());
  predict(ones({1, 4}));
  model->train();
  CHECK(contains(error_of([&] { predict(ones({1, 4})); }), "training mode"));
  CHECK(contains(error_of([&] { Predictor(model, {.threads = -1}); }), "got -1, want 0 or more"));
  CHECK(contains(error_of([&] { Predictor(model, {.mixed_precision = "bf17"}); }), "bf16"));
  CHECK(contains(error_of([&] { Predictor empty{Model()}; }), "want a model"));
}

TEST_CASE("GPU: threads share a predictor on a GPU, with inputs from the host" * on_gpu()) {
  for (const char* precision : {"fp32", "bf16", "fp16_naive", "fp8"}) {
    CAPTURE(precision);
    const PredictorOptions options = {.mixed_precision = precision, .device = gpu};
    const std::vector<Tensor> inputs = {drawn_input(subjects[0], 1, 1),
                                        drawn_input(subjects[0], 3, 2)};
    const Predictor alone(drawn_model(subjects[0], 1), options);
    std::vector<Bits> wanted;
    for (const Tensor& x : inputs) wanted.push_back(bits_of(alone(x)));
    CHECK(alone(inputs[0]).device() == gpu);
    const Predictor shared(drawn_model(subjects[0], 1), options);
    const std::vector<Bits> got = outputs_of(shared, inputs, 4, 2);
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == wanted[i % wanted.size()]);
  }
}
