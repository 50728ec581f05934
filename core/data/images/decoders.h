// The decoders of decode_image, and their shared code. Thread-safe.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Decode `file`, a whole file of the format; throw the errors of decode_image.
Image decode_jpeg(std::span<const uint8_t> file, const std::string& name,
                  const DecodeOptions& options);
Image decode_png(std::span<const uint8_t> file, const std::string& name,
                 const DecodeOptions& options);

// Returns the orientation (1..8) in EXIF data, which starts with its TIFF header; 1 if it has none.
int exif_orientation(std::span<const uint8_t> tiff);

// Returns the upright form of an image that was stored with an EXIF orientation.
Image upright(const Image& image, int orientation);

}  // namespace booster
