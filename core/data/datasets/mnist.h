// MNIST: 70,000 grey images of handwritten digits, 28 x 28 pixels, by Yann LeCun and others; and
// data sets that were made in its form (Fashion-MNIST, KMNIST).
#pragma once

#include "core/data/datasets/packed_images.h"

namespace booster {

struct MnistOptions {
  bool train = true;  // the 60,000 images to train on; false: the 10,000 to test on
  Compose transform = {};
  std::vector<std::string> classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
};

// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., each as it is or with .gz, in ROOT,
// ROOT/raw or where torchvision puts them, ROOT/MNIST/raw. Error of kind data if a file is missing
// or is not what its header says.
class MNIST : public PackedImages {
 public:
  explicit MNIST(const std::string& root, MnistOptions options = {});
};

}  // namespace booster
