#include "tests/cuda_on_host/shared.h"

#include "tests/cuda_on_host/fault.h"
#include "tests/cuda_on_host/include/cuda_runtime_api.h"
#include "tests/cuda_on_host/watch.h"

#include <algorithm>
#include <vector>

namespace cuda_on_host {
namespace {

constexpr size_t gap = 64;  // between declarations, so that one's end is not another's begin
constexpr size_t room = 4 * most_shared_bytes;

struct Declared {
  const void* site;
  size_t begin, end;
};

alignas(256) char memory[room];
std::vector<Declared> declared;
size_t used = 0, counted = 0;

}  // namespace

void begin_shared_memory() {
  declared.clear();
  used = counted = 0;
}

void* shared_memory(const void* site, size_t bytes, size_t alignment) {
  for (const Declared& one : declared)
    if (one.site == site) return memory + one.begin;
  const size_t begin = (used + alignment - 1) / alignment * alignment;
  counted += bytes;
  if (counted > most_shared_bytes)
    fault("a block declares {} bytes of shared memory; want {} at most", counted,
          most_shared_bytes);
  used = begin + bytes + gap;
  if (used > room) fault("a block has too many declarations of shared memory");
  std::memset(memory + begin, 0xFF, bytes);  // nan
  forget_shared_accesses(begin, bytes);
  declared.push_back({site, begin, begin + bytes});
  return memory + begin;
}

bool is_shared_memory(const void* address) {
  const char* p = static_cast<const char*>(address);
  return p >= memory && p < memory + room;
}

SharedRange shared_range(const void* address, size_t bytes) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - memory);
  const bool inside = std::any_of(declared.begin(), declared.end(), [=](const Declared& one) {
    return offset >= one.begin && offset + bytes <= one.end;
  });
  return {offset, inside};
}

}  // namespace cuda_on_host
