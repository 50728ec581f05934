// The decoders that decode_image chooses from, and the code that they share. Thread-safe.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Both: `file` is a whole file of the format; errors are those of decode_image.
Image decode_jpeg(std::span<const uint8_t> file, const std::string& name,
                  const DecodeOptions& options);
Image decode_png(std::span<const uint8_t> file, const std::string& name,
                 const DecodeOptions& options);

// The orientation (1..8) in EXIF data, which begins with its TIFF header; 1 if it has none.
int exif_orientation(std::span<const uint8_t> tiff);

// Turns an image that was stored with an EXIF orientation upright.
Image upright(const Image& image, int orientation);

}  // namespace booster
