// CIFAR-10: 60,000 colour images of 32 x 32 pixels in 10 classes, by Alex Krizhevsky.
#pragma once

#include "core/data/datasets/packed_images.h"

namespace booster {

struct Cifar10Options {
  bool train = true;  // the 50,000 training images; false: the 10,000 test images
  Compose transform = {};
};

// Reads the binary version (cifar-10-binary.tar.gz, unpacked): data_batch_1.bin to 5 and
// test_batch.bin in ROOT or ROOT/cifar-10-batches-bin. Throws an error of kind data if a file is
// missing or truncated.
class CIFAR10 : public PackedImages {
 public:
  explicit CIFAR10(const std::string& root, Cifar10Options options = {});
};

}  // namespace booster
