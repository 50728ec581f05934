// Sends small tables to the device as kernel arguments. A copy from the host's memory would have to
// wait until the device has read it. A replay of recorded work would read that memory again, after
// it has changed.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/runtime/memory.h"

#include <cstring>

namespace booster::kernels::cuda {
namespace {

struct Words {
  static constexpr int count = 500;  // 4,000 of the 4,096 bytes that every device accepts
  uint64_t word[count];
};

}  // namespace

void upload_queued(void* to, const void* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(Words)) {
    const size_t left = bytes - at < sizeof(Words) ? bytes - at : sizeof(Words);
    Words words;
    std::memcpy(words.word, static_cast<const char*>(from) + at, left);
    uint64_t* target = reinterpret_cast<uint64_t*>(static_cast<char*>(to) + at);
    for_each_block(1, [=] ON_DEVICE(int64_t) {
      for_each_lane(int64_t(left / 8), [&](int64_t i) { target[i] = words.word[i]; });
    });
  }
}

}  // namespace booster::kernels::cuda
