// Reading files that may be compressed by gzip. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

// The content of a file, uncompressed. Errors of kind data, which begin with `what`: a file that
// cannot be read, is damaged or cut off, or holds more than `limit` bytes.
std::vector<uint8_t> read_gzip_or_plain(const char* what, const std::string& path, size_t limit);

}  // namespace booster
