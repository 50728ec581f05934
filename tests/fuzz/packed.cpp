// Data sets with all images or tokens in one file, compressed or not. The input's first byte
// selects the type: 'm' MNIST, 'c' a CIFAR-10 file, else tokens. For MNIST the next four bytes (low
// byte first) give the size of the images file, which is followed by the labels file.
#include "core/data/datasets/datasets.h"
#include "tests/fuzz/own_folder.h"

#include <algorithm>

using namespace booster;

namespace {

void load_some(const PackedImages& set) {
  for (const int64_t index : {int64_t{0}, set.size() / 2, set.size() - 1}) {
    if (index < 0 || index >= set.size()) continue;
    RandomStream random(1, 1, 1);
    set.load(index, random);
    fuzz::promise(set.label(index) < static_cast<int64_t>(set.classes().size()),
                  "labels are those of classes");
  }
}

void read_mnist(const std::filesystem::path& folder, std::string_view rest) {
  size_t bytes = 0;
  for (size_t i = 0; i < std::min<size_t>(rest.size(), 4); ++i)
    bytes |= size_t{static_cast<uint8_t>(rest[i])} << (8 * i);
  rest.remove_prefix(std::min<size_t>(rest.size(), 4));
  fuzz::put_file(folder / "train-images-idx3-ubyte", rest.substr(0, bytes));
  fuzz::put_file(folder / "train-labels-idx1-ubyte", rest.substr(std::min(bytes, rest.size())));
  fuzz::accepts([&] { load_some(MNIST(folder.string(), {.transform = Compose(ToTensor())})); });
}

void read_cifar(const std::filesystem::path& folder, std::string_view bytes) {
  fuzz::put_file(folder / "test_batch.bin", bytes);
  fuzz::accepts([&] {
    load_some(CIFAR10(folder.string(), {.train = false, .transform = Compose(ToTensor())}));
  });
}

void read_token_file(const std::filesystem::path& folder, std::string_view bytes) {
  fuzz::put_file(folder / "tokens", bytes);
  for (const int size : {1, 2, 4})
    fuzz::accepts([&] {
      const TokenDataset set(read_tokens((folder / "tokens").string(), {.bytes = size}),
                             {.length = 4, .stride = 3});
      RandomStream random(1, 1, 1);
      set.load(set.size() - 1, random);
    });
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path folder = fuzz::own_folder();
  if (size == 0) return 0;
  const std::string_view rest = fuzz::text_of(data + 1, size - 1);
  if (data[0] == 'm')
    read_mnist(folder, rest);
  else if (data[0] == 'c')
    read_cifar(folder, rest);
  else
    read_token_file(folder, rest);
  return 0;
}
