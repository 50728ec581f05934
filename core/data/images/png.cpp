#include "core/data/images/decoders.h"
#include "core/data/images/image_limits.h"
#include "platform/error.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

namespace booster {
namespace {

// libpng leaves a failed call by longjmp, so its state is plain, as in jpeg.cpp.
struct PngDecoder {
  png_structp png;
  png_infop info;
  const uint8_t* data;
  size_t left;
  jmp_buf escape;
  char message[256];
};

void leave(png_structp png, png_const_charp message) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::strncpy(decoder->message, message, sizeof decoder->message - 1);
  longjmp(decoder->escape, 1);
}

// Ignores libpng's warnings, which concern only metadata; damaged pixels and bad checksums are
// errors.
void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t n) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (n > decoder->left) png_error(png, "the file ends early");
  std::memcpy(to, decoder->data, n);
  decoder->data += n;
  decoder->left -= n;
}

// Metadata that may be large when unpacked and does not affect the pixels.
constexpr char ignored_chunks[] = "iCCP\0zTXt\0iTXt\0tEXt\0sPLT\0hIST";

void set_limits(png_structp png) {
  png_set_user_limits(png, image_limits::side, image_limits::side);
  png_set_chunk_malloc_max(png, png_alloc_size_t{1} << 20);
  png_set_chunk_cache_max(png, 128);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER,
                              reinterpret_cast<png_const_bytep>(ignored_chunks),
                              sizeof ignored_chunks / 5);
}

bool read_png_header(PngDecoder& decoder) {
  if (setjmp(decoder.escape)) return false;
  set_limits(decoder.png);
  png_set_read_fn(decoder.png, &decoder, read_bytes);
  png_read_info(decoder.png, decoder.info);
  return true;
}

// Converts everything to 8-bit grey or RGB without alpha.
bool set_conversions(PngDecoder& decoder) {
  if (setjmp(decoder.escape)) return false;
  png_structp png = decoder.png;
  const int colour = png_get_color_type(png, decoder.info);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  // Pillow keeps the high byte, but clips grey without alpha; here grey is scaled exactly instead.
  if (colour == PNG_COLOR_TYPE_GRAY)
    png_set_scale_16(png);
  else
    png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  return true;
}

bool read_png_pixels(PngDecoder& decoder, Image& image) {
  if (setjmp(decoder.escape)) return false;
  const bool interlaced = png_get_interlace_type(decoder.png, decoder.info) != PNG_INTERLACE_NONE;
  const int passes = interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1;
  for (int pass = 0; pass < passes; ++pass)
    for (int y = 0; y < image.height(); ++y) png_read_row(decoder.png, image.row(y), nullptr);
  png_read_end(decoder.png, nullptr);
  return true;
}

uint32_t big_endian_32(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

// Returns the content of the last eXIf chunk, which may come before or after the pixels. libpng of
// 2025 skips one after them.
std::span<const uint8_t> exif_of(std::span<const uint8_t> file) {
  constexpr size_t signature = 8, around = 12;  // length, type and checksum of a chunk
  std::span<const uint8_t> found;
  for (size_t at = signature; file.size() >= at + around;) {
    const uint8_t* chunk = file.data() + at;
    const size_t length = big_endian_32(chunk);
    if (length > file.size() - at - around) break;
    if (std::memcmp(chunk + 4, "eXIf", 4) == 0) found = file.subspan(at + 8, length);
    at += around + length;
  }
  return found;
}

class PngReader {
 public:
  PngReader(std::span<const uint8_t> file, const std::string& name) : name_(name) {
    decoder_.data = file.data();
    decoder_.left = file.size();
    decoder_.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder_, leave, ignore_warning);
    if (decoder_.png) decoder_.info = png_create_info_struct(decoder_.png);
    if (!decoder_.info) fail_run("libpng: could not start; got no memory");
    if (!read_png_header(decoder_)) bad_image(name_, decoder_.message);
  }

  Image pixels() {
    const auto width = png_get_image_width(decoder_.png, decoder_.info);
    const auto height = png_get_image_height(decoder_.png, decoder_.info);
    check_image_size(name_, width, height);
    const size_t raw = png_get_rowbytes(decoder_.png, decoder_.info) * height;
    if (raw > image_limits::memory)
      bad_image(name_, fmt::format("too much data; got {} MB unpacked, want at most {} MB",
                                   raw >> 20, image_limits::memory >> 20));
    if (!set_conversions(decoder_)) bad_image(name_, decoder_.message);
    Image image(static_cast<int>(width), static_cast<int>(height),
                png_get_channels(decoder_.png, decoder_.info));
    if (png_get_rowbytes(decoder_.png, decoder_.info) != image.row_bytes())
      bad_image(name_, "its pixel format is not supported");
    if (!read_png_pixels(decoder_, image)) bad_image(name_, decoder_.message);
    return image;
  }

 private:
  struct OwnedDecoder : PngDecoder {
    OwnedDecoder() : PngDecoder{} {}
    ~OwnedDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
  };

  const std::string& name_;
  OwnedDecoder decoder_;
};

}  // namespace

Image decode_png(std::span<const uint8_t> file, const std::string& name,
                 const DecodeOptions& options) {
  PngReader reader(file, name);
  Image image = reader.pixels();
  const int orientation = options.apply_orientation ? exif_orientation(exif_of(file)) : 1;
  return orientation == 1 ? std::move(image) : upright(image, orientation);
}

}  // namespace booster
