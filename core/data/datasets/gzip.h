// Reads files that may be compressed by gzip. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

// Returns a file's content, uncompressed. Throws errors of kind data, which start with `what`, for
// a file that cannot be read, is damaged or truncated, or holds more than `limit` bytes.
std::vector<uint8_t> read_gzip_or_plain(const char* what, const std::string& path, size_t limit);

}  // namespace booster
