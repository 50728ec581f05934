// MNIST: 70,000 grey images of handwritten digits, 28 x 28 pixels, by Yann LeCun and others; and
// data sets in the same format (Fashion-MNIST, KMNIST).
#pragma once

#include "core/data/datasets/packed_images.h"

namespace booster {

struct MnistOptions {
  bool train = true;  // the 60,000 training images; false: the 10,000 test images
  Compose transform = {};
  std::vector<std::string> classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
};

// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., each plain or with .gz, in
// ROOT, ROOT/raw or torchvision's folder, ROOT/MNIST/raw. Throws an error of kind data if a file is
// missing or does not match its header.
class MNIST : public PackedImages {
 public:
  explicit MNIST(const std::string& root, MnistOptions options = {});
};

}  // namespace booster
