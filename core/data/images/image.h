// Image: 8-bit pixels in memory, decoded from files.
//
// Decoding trusts nothing. It detects the format from the content and checks sizes in the header
// before it allocates pixels. Any damage that the decoders report becomes an error that names the
// file. Distinct images may be used from distinct threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace booster {

// Rows of `width` pixels, each of 1 (grey) or 3 (RGB) interleaved bytes, without gaps between rows.
class Image {
 public:
  Image() = default;
  // Contents are undefined.
  Image(int width, int height, int channels) { reshape(width, height, channels); }

  int width() const { return width_; }
  int height() const { return height_; }
  int channels() const { return channels_; }
  size_t row_bytes() const { return size_t(width_) * channels_; }
  size_t bytes() const { return row_bytes() * height_; }
  bool empty() const { return bytes() == 0; }

  uint8_t* data() { return pixels_.get(); }
  const uint8_t* data() const { return pixels_.get(); }
  uint8_t* row(int y) { return data() + y * row_bytes(); }
  const uint8_t* row(int y) const { return data() + y * row_bytes(); }

  // Changes the size; contents become undefined. Memory is reused if it is large enough.
  void reshape(int width, int height, int channels);

  // Bytes after the last pixel that may be read and written, so that a pixel of three bytes can be
  // copied as four.
  static constexpr size_t slack = 32;

 private:
  int width_ = 0, height_ = 0, channels_ = 0;
  size_t capacity_ = 0;
  std::unique_ptr<uint8_t[]> pixels_;
};

// Limits of an image file. A file that exceeds any of them is a bad image.
namespace image_limits {
inline constexpr int side = 16384;
inline constexpr int64_t pixels = int64_t{64} << 20;
inline constexpr int scans = 500;                         // of a progressive JPEG
inline constexpr int64_t scanned_pixels = 1'000'000'000;  // pixels x scans: under a second
inline constexpr size_t memory = size_t{256} << 20;       // total for decoding one file
inline constexpr size_t file_bytes = size_t{64} << 20;
}  // namespace image_limits

struct DecodeOptions {
  // Rotates the image according to its EXIF orientation. Off by default, as in torchvision's
  // loader.
  bool apply_orientation = false;
};

// Decodes a JPEG (libjpeg-turbo: slow integer DCT, fancy upsampling) or a PNG, detected from the
// content, as Pillow does. Grey stays one channel, CMYK becomes RGB, palettes are expanded, alpha
// is dropped. 16-bit samples keep the high byte, but grey ones without alpha are scaled (Pillow
// clips them). `name` is for messages. For anything else it throws an error of kind data that
// starts with "bad image 'NAME'".
Image decode_image(std::span<const uint8_t> file, const std::string& name,
                   const DecodeOptions& options = {});

// As decode_image, from a file, which must be a regular file.
Image load_image(const std::string& path, const DecodeOptions& options = {});

// Encodes a JPEG with libjpeg's quality 1..100 (4:2:0 colour); returns the file's bytes.
std::string encode_jpeg(const Image& image, int quality = 90);

[[noreturn]] void bad_image(const std::string& name, const std::string& reason);

// Throws bad_image if a side or the number of pixels exceeds image_limits.
void check_image_size(const std::string& name, int64_t width, int64_t height);

}  // namespace booster
