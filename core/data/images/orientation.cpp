#include "core/data/images/decoders.h"

#include <cstring>

namespace booster {
namespace {

// Reads numbers of a TIFF structure in its own byte order; 0 beyond the end.
class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes)
      : bytes_(bytes), little_(bytes.size() > 1 && bytes[0] == 'I') {}

  uint32_t u8(size_t at) const { return at < bytes_.size() ? bytes_[at] : 0; }
  uint32_t u16(size_t at) const {
    if (at + 2 > bytes_.size()) return 0;
    const uint32_t a = bytes_[at], b = bytes_[at + 1];
    return little_ ? a | b << 8 : a << 8 | b;
  }
  uint32_t u32(size_t at) const {
    return little_ ? u16(at) | u16(at + 2) << 16 : u16(at) << 16 | u16(at + 2);
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_;
};

// Returns the size in bytes of an integer of this TIFF type; 0 for other types. A single unsigned
// byte does not count, as in Pillow.
size_t whole_number_bytes(uint32_t type) {
  enum : uint32_t { u16 = 3, u32 = 4, i8 = 6, i16 = 8, i32 = 9 };
  if (type == i8) return 1;
  if (type == u16 || type == i16) return 2;
  return type == u32 || type == i32 ? 4 : 0;
}

// Returns the first value of a directory entry, stored in the entry itself or, if they do not fit,
// elsewhere. Returns 0 if it has no integer value.
uint32_t first_value(const TiffReader& reader, size_t entry) {
  const size_t bytes = whole_number_bytes(reader.u16(entry + 2));
  const uint64_t count = reader.u32(entry + 4);
  if (bytes == 0 || count == 0) return 0;
  const size_t at = count * bytes > 4 ? reader.u32(entry + 8) : entry + 8;
  return bytes == 1 ? reader.u8(at) : bytes == 2 ? reader.u16(at) : reader.u32(at);
}

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t orientation_tag = 0x0112;
  const TiffReader reader(tiff);
  if (reader.u16(2) != 42) return 1;
  const size_t directory = reader.u32(4);
  const uint32_t entries = reader.u16(directory);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * size_t{i};
    if (reader.u16(entry) != orientation_tag) continue;
    const uint32_t value = first_value(reader, entry);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(const Image& image, int orientation) {
  const bool transposed = orientation >= 5;
  const bool mirror_x =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirror_y =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const int width = image.width(), height = image.height(), channels = image.channels();
  Image out(transposed ? height : width, transposed ? width : height, channels);
  for (int y = 0; y < out.height(); ++y)
    for (int x = 0; x < out.width(); ++x) {
      // The stored position of the upright image's pixel (x, y).
      int from_x = transposed ? y : x;
      int from_y = transposed ? x : y;
      if (mirror_x) from_x = width - 1 - from_x;
      if (mirror_y) from_y = height - 1 - from_y;
      std::memcpy(out.row(y) + x * channels, image.row(from_y) + from_x * channels, channels);
    }
  return out;
}

}  // namespace booster
