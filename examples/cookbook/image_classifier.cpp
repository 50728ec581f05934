// Fine-tunes an image classifier, as Accelerate's cv_example does: a folder for each class, a
// held-out part, a head for these classes, a one-cycle schedule, accuracy over all ranks, and a
// checkpoint after each epoch. Without FOLDER it makes images of stripes and squares.
//   build/examples/image_classifier [PRECISION [LAYOUT [FOLDER [WEIGHTS [OUT]]]]]
// WEIGHTS is a safetensors file of timm's vit_tiny_patch16_224.
#include "examples/training/layout.h"

#include <fmt/core.h>

#include <fstream>

using namespace booster;
namespace fs = std::filesystem;

// Writes JPEG files of three classes, of several sizes and colours.
void make_images(const fs::path& root) {
  const char* classes[] = {"across", "down", "square"};
  for (uint64_t i = 0; i < 96; ++i) {
    RandomStream random(1, 0, i);
    const int width = 40 + static_cast<int>(random.below(24)),
              stripe = 3 + static_cast<int>(random.below(3));
    Image image(width, width, 3);
    for (int y = 0; y < width; ++y)
      for (int x = 0; x < width; ++x) {
        const bool light = i % 3 == 0   ? y / stripe % 2
                           : i % 3 == 1 ? x / stripe % 2
                                        : (y / stripe + x / stripe) % 2;
        for (int c = 0; c < 3; ++c)
          image.data()[(y * width + x) * 3 + c] =
              static_cast<uint8_t>((light ? 170 : 50) + random.below(60));
      }
    fs::create_directories(root / classes[i % 3]);
    std::ofstream(root / classes[i % 3] / fmt::format("{:03}.jpg", i), std::ios::binary)
        << encode_jpeg(image);
  }
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  const Group all = booster.plugin().group();
  const fs::path root = argc > 3 ? argv[3] : "cookbook_images";
  if (!fs::exists(root) && world.rank == 0) make_images(root);
  all.barrier();

  constexpr int side = 32, epochs = 8;
  const Normalize normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  const ImageFolder images(root.string(), {.cache_bytes = 64 << 20});
  const auto [train_images, held_out] = images.split(0.25);
  const int64_t batch = 12 / booster.plugin().layout().data;
  DataLoader train = booster.prepare_dataloader(
      train_images.with_transform(
          Compose(RandomResizedCrop(side, {.scale = {0.6, 1}}), ToTensor(), Gray2RGB(), normalize)),
      {.batch_size = batch, .shuffle = true, .drop_last = true});
  DataLoader valid = booster.prepare_dataloader(
      held_out.with_transform(
          Compose(Resize(ImageSize(side, side)), ToTensor(), Gray2RGB(), normalize)),
      {.batch_size = batch});

  Model model = models::vit("vit_tiny_patch16_224",
                            {.num_classes = static_cast<int64_t>(images.classes().size()),
                             .drop_rate = 0.1,
                             .img_size = side,
                             .patch_size = 8,
                             .depth = 2});
  if (argc > 4 && *argv[4]) fmt::print("{}\n", load_weights(model, argv[4]));
  AdamW optimizer(model.parameters(), {.lr = 2e-3});
  OneCycleLR schedule(optimizer, {.max_lr = 2e-3, .total_steps = epochs * train.size()});
  auto boosted = booster.boost(model, optimizer, CrossEntropyLoss(), train, schedule);
  auto& [net, opt, loss_fn, data, lr] = boosted;

  int64_t step = 0, epoch = 0;
  const auto print_line = [](const std::string& line) { fmt::print("{}\n", line); };
  if (argc > 5)
    if (const auto resumed = resume_training(argv[5], boosted, print_line)) {
      step = resumed->step;
      epoch = resumed->epoch;
    }
  double accuracy = 0;
  for (; epoch < epochs; ++epoch) {
    net.train();
    for (auto& [image, label] : data) {
      opt.zero_grad();
      booster.backward(loss_fn(net(image), label), opt);
      lr.step(opt.step());
      ++step;
    }
    net.eval();
    const NoGradGuard no_grad;
    MeanMetric right(valid);
    for (auto& [image, label] : valid) right.add(top_k_correct(net(image), label));
    accuracy = right.value(all);
    if (world.rank == 0) fmt::print("epoch {} accuracy {:.1f} %\n", epoch, 100 * accuracy);
    if (argc > 5) save_training(argv[5], boosted, {.step = step});
  }
}
