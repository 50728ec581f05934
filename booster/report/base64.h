// Base64 (RFC 4648, section 4), as used in data URIs. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster::report {

std::string base64(std::string_view bytes);

}  // namespace booster::report
