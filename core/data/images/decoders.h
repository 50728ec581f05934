// What decode_image chooses from, and what the two formats share. Thread-safe.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Both: `file` is a whole file of the format; errors as of decode_image.
Image decode_jpeg(std::span<const uint8_t> file, const std::string& name,
                  const DecodeOptions& options);
Image decode_png(std::span<const uint8_t> file, const std::string& name,
                 const DecodeOptions& options);

// The orientation (1..8) that EXIF data, beginning with its TIFF header, gives; 1 if it gives none.
int exif_orientation(std::span<const uint8_t> tiff);

// The upright image of one that was stored with an EXIF orientation.
Image upright(const Image& image, int orientation);

}  // namespace booster
