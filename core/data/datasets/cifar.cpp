#include "core/data/datasets/datasets.h"

#include "core/data/datasets/gzip.h"
#include "platform/error.h"

#include <filesystem>
#include <utility>

namespace booster {
namespace {

namespace fs = std::filesystem;

constexpr int cifar_side = 32, channels = 3;
constexpr size_t plane = size_t{cifar_side} * cifar_side, record = 1 + channels * plane;
constexpr size_t images_per_file = 10'000;

fs::path folder_of(const std::string& root) {
  for (const fs::path& folder : {fs::path(root), fs::path(root) / "cifar-10-batches-bin"})
    if (fs::exists(folder / "data_batch_1.bin") || fs::exists(folder / "test_batch.bin"))
      return folder;
  const bool pickled = fs::exists(fs::path(root) / "cifar-10-batches-py");
  fail_data(
      "CIFAR10: no files data_batch_1.bin in '{}'; want the binary version, "
      "cifar-10-binary.tar.gz, unpacked there{}",
      root, pickled ? ", instead of the pickled one (cifar-10-batches-py)" : "");
}

std::vector<std::string> files_of(bool train) {
  if (!train) return {"test_batch.bin"};
  std::vector<std::string> files;
  for (int i = 1; i <= 5; ++i) files.push_back(fmt::format("data_batch_{}.bin", i));
  return files;
}

// A record is a label and one plane per colour.
void add_records(const std::string& path, PackedContents& contents) {
  const auto bytes = read_gzip_or_plain("CIFAR10", path, images_per_file * record);
  if (bytes.empty() || bytes.size() % record != 0)
    fail_data("CIFAR10: '{}' is cut off; got {} bytes, want a multiple of {}", path, bytes.size(),
              record);
  for (size_t at = 0; at < bytes.size(); at += record) {
    contents.labels.push_back(bytes[at]);
    for (size_t i = 0; i < plane; ++i)
      for (size_t c = 0; c < channels; ++c)
        contents.pixels.push_back(bytes[at + 1 + c * plane + i]);
  }
}

PackedContents read_cifar10(const std::string& root, bool train) {
  PackedContents contents = {.kind = "CIFAR-10",
                             .width = cifar_side,
                             .height = cifar_side,
                             .channels = channels,
                             .classes = {"airplane", "automobile", "bird", "cat", "deer", "dog",
                                         "frog", "horse", "ship", "truck"}};
  const fs::path folder = folder_of(root);
  for (const std::string& name : files_of(train)) add_records((folder / name).string(), contents);
  return contents;
}

}  // namespace

CIFAR10::CIFAR10(const std::string& root, Cifar10Options options)
    : PackedImages(read_cifar10(root, options.train), std::move(options.transform)) {}

}  // namespace booster
