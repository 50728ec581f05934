// Reads encoded image files. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

// Returns the bytes of a regular file within image_limits; throws bad_image (image.h) otherwise.
std::vector<uint8_t> read_image_file(const std::string& path);

}  // namespace booster
