// A small folder of images, and what a loader produces from it.
#pragma once

#include "core/data/datasets/datasets.h"
#include "core/data/loader.h"
#include "tests/data/files.h"

#include <vector>

namespace booster::test {

inline const Compose augmented{Resize(24), RandomResizedCrop(16), RandomHorizontalFlip(),
                               ToTensor(), Gray2RGB(),            Normalize({0.5}, {0.5})};

// Two classes of JPEG files, grey and colour, of several sizes.
class Pictures {
 public:
  explicit Pictures(int per_class) {
    for (int i = 0; i < 2 * per_class; ++i)
      folder_.write(fmt::format("{}/image_{:04}.jpg", i % 2 ? "cat" : "dog", i),
                    encode_jpeg(gradient(20 + i % 7, 18 + i % 5, i % 4 ? 3 : 1, i)));
  }
  ImageFolder dataset() const { return ImageFolder(folder_.path(), {.transform = augmented}); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

// Returns all values of an epoch, batch by batch.
inline std::vector<std::vector<float>> epoch(DataLoader& loader) {
  std::vector<std::vector<float>> batches;
  for (auto& [image, label] : loader) {
    batches.push_back(image.to_vector<float>());
    for (float value : label.to_vector<float>()) batches.back().push_back(value);
  }
  return batches;
}

}  // namespace booster::test
