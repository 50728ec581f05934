// A training step of square linear layers, mean squared error and plain SGD: almost only large
// matrix products. Two networks often used to demonstrate mixed precision are `--layers 3 --width
// 4096 --batch 512` and `--layers 9 --width 8192 --batch 2048 --activation none`.
#include "benchmarks/training.h"

#include <fmt/format.h>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  std::string precision = "fp32", activation = "relu", optimizer = "sgd";
  int64_t layers = 3, width = 4096, batch = 512;
  bool profile = false;
};

Model stack_of(const Settings& settings) {
  if (settings.activation == "relu")
    return models::mlp(std::vector<int64_t>(settings.layers + 1, settings.width));
  check(settings.activation == "none", "--activation: no such activation; got {}{}",
        settings.activation, legal_names(settings.activation, {"relu", "none"}));
  Sequential stack;
  for (int64_t i = 0; i < settings.layers; ++i)
    stack.append(Linear(settings.width, settings.width));
  return stack;
}

TrainingWork work_of(const Settings& settings) {
  for (const int64_t size : {settings.layers, settings.width, settings.batch})
    check(size >= 1,
          "linear_stack: sizes out of range; got {} layers of {}, batch {}, want all above 0",
          settings.layers, settings.width, settings.batch);
  const int64_t width = settings.width, batch = settings.batch;
  auto shapes = linear_shapes(batch, width, width, product_dtype(settings.precision),
                              settings.layers);
  --shapes[1].count;  // the input needs no gradient
  return {.text = fmt::format("{} x Linear {}, {}, batch {}, training step in {} with {}",
                              settings.layers, width, settings.activation, batch,
                              settings.precision, optimizer_choice(settings.optimizer).text),
          .model = stack_of(settings),
          .criterion = MSELoss(),
          .input = normal({batch, width}),
          .target = normal({batch, width}),
          .precision = settings.precision,
          .optimizer = settings.optimizer,
          .profile = settings.profile,
          .lr = 1e-4,
          .gflop = total_gflop(shapes),
          .shapes = shapes};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("linear_stack", "A training step of square linear layers.", 5);
  benchmark.option("--layers", settings.layers, "linear layers");
  benchmark.option("--width", settings.width, "features of every layer");
  benchmark.option("--batch", settings.batch, "rows in a step");
  benchmark.option("--activation", settings.activation, "between layers: relu or none");
  benchmark.option("--precision", settings.precision, "fp32, fp16, bf16 or fp8");
  benchmark.option("--optimizer", settings.optimizer, "sgd, sgd_momentum or adamw");
  benchmark.flag("--profile", settings.profile, profile_meaning);
  return benchmark.run(argc, argv,
                       [&] { return measure_training(benchmark, work_of(settings)); });
}
