// A training step of a convolutional network on 32 x 32 images, SGD with momentum. Convolutions do
// not use matrix-product algorithms, so there is no bound here: compare with PyTorch.
#include "benchmarks/training.h"

#include <fmt/format.h>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  std::string model = "resnet20", precision = "fp32", optimizer = "sgd_momentum", device = "cpu";
  int64_t batch = 128;
  bool profile = false;
};

constexpr int64_t classes = 10;

TrainingWork work_of(const Settings& settings) {
  check(settings.model == "resnet20", "--model: no such model; got {}{}", settings.model,
        legal_names(settings.model, {"resnet20"}));
  check(settings.batch >= 1, "--batch: out of range; got {}, want at least 1", settings.batch);
  const Device device = chosen_device(settings.device);
  Model model = models::resnet20({.num_classes = classes});
  model->to(device);
  return {.text = fmt::format("{}, batch {}, training step in {} with {}{}", settings.model,
                              settings.batch, settings.precision,
                              optimizer_choice(settings.optimizer).text,
                              device == Device{} ? "" : " on a GPU"),
          .model = model,
          .criterion = CrossEntropyLoss(),
          .input = normal({settings.batch, 3, 32, 32}).to(device),
          .target = class_labels(settings.batch, classes).to(device),
          .precision = settings.precision,
          .optimizer = settings.optimizer,
          .profile = settings.profile};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("conv_stack", "A training step of a convolutional network.", 10);
  benchmark.option("--model", settings.model, "resnet20");
  benchmark.option("--batch", settings.batch, "images in a step");
  benchmark.option("--device", settings.device, "cpu or cuda");
  benchmark.option("--precision", settings.precision, "fp32, fp16, bf16 or fp8");
  benchmark.option("--optimizer", settings.optimizer, "sgd, sgd_momentum or adamw");
  benchmark.flag("--profile", settings.profile, profile_meaning);
  return benchmark.run(argc, argv,
                       [&] { return measure_training(benchmark, work_of(settings)); });
}
