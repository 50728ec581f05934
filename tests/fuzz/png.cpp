// A PNG file, with and without its orientation. It is tried unchanged, and with corrected
// checksums, since most changes would otherwise fail at the first checksum.
#include "core/data/images/decoders.h"
#include "tests/fuzz/target.h"

#include <span>
#include <vector>

using namespace booster;

namespace {

uint32_t checksum(std::span<const uint8_t> bytes) {
  uint32_t rest = ~0U;
  for (const uint8_t byte : bytes) {
    rest ^= byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? rest >> 1 ^ 0xEDB88320U : rest >> 1;
  }
  return ~rest;
}

// Corrects every chunk: length, type, data, checksum of type and data.
std::vector<uint8_t> with_right_checksums(std::span<const uint8_t> file) {
  std::vector<uint8_t> right(file.begin(), file.end());
  for (size_t at = 8; at + 12 <= right.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | right[at + i];
    if (length > right.size() - at - 12) break;
    const uint32_t sum = checksum({right.data() + at + 4, length + 4});
    for (size_t i = 0; i < 4; ++i)
      right[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += length + 12;
  }
  return right;
}

void decode(std::span<const uint8_t> file) {
  int64_t pixels = 0;
  const bool decoded = fuzz::accepts([&] {
    const Image image = decode_png(file, "input", {});
    pixels = int64_t{image.width()} * image.height();
    fuzz::promise(!image.empty(), "an image has pixels");
  });
  fuzz::accepts([&] {
    const Image image = decode_png(file, "input", {.apply_orientation = true});
    fuzz::promise(decoded && int64_t{image.width()} * image.height() == pixels,
                  "turning an image upright keeps its pixels");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  decode({data, size});
  decode(with_right_checksums({data, size}));
  return 0;
}
