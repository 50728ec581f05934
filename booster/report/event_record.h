// The records of TensorBoard's event files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace booster::report {

// Returns data as a TensorFlow record (tensorflow/core/lib/io/record_writer): its length, and
// masked CRC-32C of the length and of the data.
std::string framed_record(std::string_view data);
// Returns the CRC with Castagnoli's polynomial (RFC 3720, section 12.1).
uint32_t crc32c(std::string_view data);

}  // namespace booster::report
