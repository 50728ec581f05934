// Limits of image files, and the error for an image that is damaged or exceeds them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace booster {

// Limits of an image file. A file that exceeds any of them is a bad image.
namespace image_limits {
inline constexpr int side = 16384;
inline constexpr int64_t pixels = int64_t{64} << 20;
inline constexpr int scans = 500;                         // of a progressive JPEG
inline constexpr int64_t scanned_pixels = 1'000'000'000;  // pixels x scans: under a second
inline constexpr size_t memory = size_t{256} << 20;       // total for decoding one file
inline constexpr size_t file_bytes = size_t{64} << 20;
}  // namespace image_limits

[[noreturn]] void bad_image(const std::string& name, const std::string& reason);

// Throws bad_image if a side or the number of pixels exceeds image_limits.
void check_image_size(const std::string& name, int64_t width, int64_t height);

}  // namespace booster
