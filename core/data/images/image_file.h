// Files of images, still encoded. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

// The bytes of a regular file within image_limits; else it is a bad image (image.h).
std::vector<uint8_t> read_image_file(const std::string& path);

}  // namespace booster
