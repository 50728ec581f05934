// A training step of a Vision Transformer. FLOPs count all matrix products, including attention's:
// three times the forward pass, minus the gradient of the image.
#include "benchmarks/training.h"
#include "core/nn/models/vit.h"

#include <fmt/format.h>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  std::string model = "vit_base_patch16_224", precision = "bf16", optimizer = "sgd", device = "cpu";
  int64_t batch = 8, depth = 0;
  bool profile = false;
};

constexpr int64_t classes = 1000;

VitSize size_of_vit(const models::VisionTransformer& vit) {
  return {.width = vit.pos_embed.size(2),
          .depth = vit.blocks.size(),
          .patches = vit.patch_embed.patches(),
          .patch_values = vit.patch_embed.proj.weight.numel() / vit.pos_embed.size(2),
          .classes = classes};
}

// Scores and weighted sums: two products of tokens x tokens x width in forward, four in backward.
double attention_gflop(const VitSize& size, int64_t batch) {
  const auto tokens = static_cast<double>(size.patches + 1);
  return 1e-9 * 6 * 2 * tokens * tokens * static_cast<double>(size.width * size.depth * batch);
}

TrainingWork work_of(const Settings& settings) {
  check(settings.batch >= 1, "--batch: out of range; got {}, want at least 1", settings.batch);
  const Device device = chosen_device(settings.device);
  models::VitOptions options{.num_classes = classes};
  if (settings.depth > 0) options.depth = settings.depth;
  Model model = models::vit(settings.model, options);
  model->to(device);
  const VitSize size = size_of_vit(dynamic_cast<models::VisionTransformer&>(model.module()));
  const auto shapes = vit_shapes(size, settings.batch, product_dtype(settings.precision));
  return {.text = fmt::format("{}, {} blocks, batch {}, training step in {} with {}{}",
                              settings.model, size.depth, settings.batch, settings.precision,
                              optimizer_choice(settings.optimizer).text,
                              device == Device{} ? "" : " on a GPU"),
          .model = model,
          .criterion = CrossEntropyLoss(),
          .input = normal({settings.batch, 3, 224, 224}).to(device),
          .target = class_labels(settings.batch, classes).to(device),
          .precision = settings.precision,
          .optimizer = settings.optimizer,
          .profile = settings.profile,
          .gflop = total_gflop(shapes) + attention_gflop(size, settings.batch),
          // The bound is measured on the CPU.
          .shapes = device == Device{} ? shapes : std::vector<MatmulShape>()};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("vit_step", "A training step of a Vision Transformer.", 5);
  benchmark.option("--model", settings.model, "vit_tiny_patch16_224, vit_base_patch16_224, ...");
  benchmark.option("--batch", settings.batch, "images in a step");
  benchmark.option("--depth", settings.depth, "blocks; 0: the model's own number");
  benchmark.option("--device", settings.device, "cpu or cuda");
  benchmark.option("--precision", settings.precision, "fp32, fp16, bf16 or fp8");
  benchmark.option("--optimizer", settings.optimizer, "sgd, sgd_momentum or adamw");
  benchmark.flag("--profile", settings.profile, profile_meaning);
  return benchmark.run(argc, argv, [&] { return measure_training(benchmark, work_of(settings)); });
}
