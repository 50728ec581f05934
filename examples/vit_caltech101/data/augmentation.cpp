#include "examples/vit_caltech101/data/augmentation.h"

#include "examples/vit_caltech101/data/datasets.h"

#include <algorithm>
#include <cmath>

namespace example {

using namespace booster;

int resize_side(int crop) { return static_cast<int>(std::lround(crop * 256.0 / 224.0)); }

Normalize normalization() { return Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}); }

RandAugmentOptions rand_augment_options(const OptionValues& data) {
  return {.num_ops = data.get<int>("rand_augment"),
          .magnitude = data.get<int>("rand_augment_magnitude"),
          .num_magnitude_bins = data.get<int>("rand_augment_bins"),
          .interpolation = affine_filter(data.get<std::string>("rand_augment_interpolation")),
          .fill = data.get<uint8_t>("rand_augment_fill")};
}

Compose training_transform(const Config& config, int side) {
  const OptionValues values = config.options("data");
  Compose all(Resize(resize_side(side)), RandomResizedCrop(side), RandomHorizontalFlip());
  if (values.get<int>("rand_augment") > 0)
    all.add(std::make_shared<RandAugment>(rand_augment_options(values)));
  all.add(std::make_shared<Compose>(ToTensor(), Gray2RGB(), normalization()));
  if (const double p = values.get<double>("random_erasing"); p > 0)
    all.add(std::make_shared<RandomErasing>(
        RandomErasingOptions{.p = p,
                             .mode = erasing_mode(values.get<std::string>("random_erasing_mode")),
                             .max_count = values.get<int>("random_erasing_count")}));
  return all;
}

bool mixes(const Config& config) {
  return config.get<double>("data.mixup") > 0 || config.get<double>("data.cutmix") > 0;
}

DataLoaderOptions training_loader_options(const Config& config, int64_t classes) {
  DataLoaderOptions options = loader_options(config);
  const OptionValues values = config.options("data");
  options.shuffle = options.drop_last = true;
  options.repeated_augmentation = values.get<int64_t>("repeated_augmentation");
  if (mixes(config))
    options.batch_transform = std::make_shared<Mixup>(
        MixupOptions{.mixup_alpha = values.get<double>("mixup"),
                     .cutmix_alpha = values.get<double>("cutmix"),
                     .mode = mixup_mode(values.get<std::string>("mixup_mode")),
                     .prob = values.get<double>("mixup_prob"),
                     .switch_prob = values.get<double>("mixup_switch_prob"),
                     .label_smoothing = config.get<double>("train.label_smoothing"),
                     .num_classes = outputs(config).value_or(classes),
                     .off_epoch = values.get<int64_t>("mixup_off_epoch")});
  return options;
}

}  // namespace example
