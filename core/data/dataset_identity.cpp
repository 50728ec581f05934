#include "core/data/dataset.h"

namespace booster {

void Fingerprint::add(std::string_view bytes) {
  for (const char byte : bytes)
    value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  add(static_cast<int64_t>(bytes.size()));  // "ab", "c" is not "a", "bc"
}

void Fingerprint::add(int64_t number) {
  value_ = (value_ ^ static_cast<uint64_t>(number)) * 0x100000001b3u;
  value_ ^= value_ >> 32;
}

}  // namespace booster
