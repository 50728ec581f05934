#include "core/data/datasets/datasets.h"
#include "core/data/images/image_limits.h"

#include "core/data/datasets/gzip.h"
#include "platform/error.h"

#include <filesystem>
#include <utility>

namespace booster {
namespace {

namespace fs = std::filesystem;

constexpr size_t file_limit = size_t{1} << 30;

std::string find_file(const std::string& root, const std::string& name) {
  for (const fs::path& folder :
       {fs::path(root), fs::path(root) / "raw", fs::path(root) / "MNIST" / "raw"})
    for (const char* ending : {"", ".gz"})
      if (const fs::path file = folder / (name + ending); fs::exists(file)) return file.string();
  fail_data("MNIST: no file {} in '{}'; want it (or {}.gz) there, in raw or in MNIST/raw", name,
            root, name);
}

// An idx file has two zeros, the element type (8: bytes), the number of dimensions, their sizes as
// big-endian 32-bit numbers, then the elements.
struct IdxFile {
  std::vector<size_t> sizes;
  std::vector<uint8_t> elements;
};

size_t big_endian(const uint8_t* bytes) {
  return size_t{bytes[0]} << 24 | size_t{bytes[1]} << 16 | size_t{bytes[2]} << 8 | bytes[3];
}

IdxFile read_idx(const std::string& path, size_t dimensions) {
  auto bytes = read_gzip_or_plain("MNIST", path, file_limit);
  const size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 ||
      bytes[3] != dimensions)
    fail_data("MNIST: '{}' is no idx file of bytes with {} dimensions", path, dimensions);
  IdxFile file;
  size_t elements = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    file.sizes.push_back(big_endian(bytes.data() + 4 + 4 * i));
    if (__builtin_mul_overflow(elements, file.sizes.back(), &elements)) elements = SIZE_MAX;
  }
  if (elements != bytes.size() - header)
    fail_data("MNIST: '{}' has another size than its header says; got {} bytes behind it, want {}",
              path, bytes.size() - header, elements);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<int64_t>(header));
  file.elements = std::move(bytes);
  return file;
}

int image_side(const std::string& path, size_t size) {
  if (size < 1 || size > static_cast<size_t>(image_limits::side))
    fail_data("MNIST: '{}' has images of another size; got a side of {}, want 1 to {}", path, size,
              image_limits::side);
  return static_cast<int>(size);
}

PackedContents read_mnist(const std::string& root, const MnistOptions& options) {
  const std::string start = options.train ? "train" : "t10k";
  const std::string path = find_file(root, start + "-images-idx3-ubyte");
  IdxFile images = read_idx(path, 3);
  IdxFile labels = read_idx(find_file(root, start + "-labels-idx1-ubyte"), 1);
  if (images.sizes[0] != labels.sizes[0])
    fail_data("MNIST: '{}' has not as many images as there are labels; got {} and {}", path,
              images.sizes[0], labels.sizes[0]);
  return {.kind = "MNIST",
          .width = image_side(path, images.sizes[2]),
          .height = image_side(path, images.sizes[1]),
          .channels = 1,
          .pixels = std::move(images.elements),
          .labels = std::move(labels.elements),
          .classes = options.classes};
}

}  // namespace

MNIST::MNIST(const std::string& root, MnistOptions options)
    : PackedImages(read_mnist(root, options), std::move(options.transform)) {}

}  // namespace booster
