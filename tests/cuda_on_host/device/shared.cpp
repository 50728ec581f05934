#include "tests/cuda_on_host/device/shared.h"

#include "tests/cuda_on_host/device/block.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/watch.h"
#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <algorithm>
#include <map>
#include <vector>

namespace cuda_on_host {
namespace {

constexpr size_t gap = 64;  // between declarations, so that they are not adjacent
constexpr size_t room = 4 * most_shared_bytes;

struct Declared {
  const void* site;
  size_t begin, end;
};

alignas(256) char memory[room];
std::vector<Declared> declared;
size_t used = 0, counted = 0;

struct Copy {
  void* to;
  const void* from;
  int bytes;
};
constexpr size_t copied_at_once = 16;
std::map<int, std::vector<Copy>> on_their_way;  // pending copies, by thread

}  // namespace

void begin_shared_memory() {
  declared.clear();
  used = counted = 0;
  on_their_way.clear();
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
  forget_shared_accesses(begin, bytes, true);
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

// Counts the thread as a writer from here on. So it detects threads that read before the copy is
// done.
void begin_copy(void* to, const void* from, int bytes) {
  if (bytes != 0 && bytes != copied_at_once)
    fault("a copy beside the threads takes {} bytes; want 0 or 16", bytes);
  if (!is_shared_memory(to)) fault("a copy beside the threads goes to no memory of the block");
  if (bytes != 0) watch(from, copied_at_once, Access::read, true);
  watch(to, copied_at_once, Access::write, true);
  std::memset(to, 0xFF, copied_at_once);
  forget_shared_accesses(shared_range(to, copied_at_once).offset, copied_at_once, false);
  on_their_way[thread_of_block()].push_back({to, from, bytes});
}

void finish_copies() {
  std::vector<Copy>& mine = on_their_way[thread_of_block()];
  for (const Copy& copy : mine) {
    watch(copy.to, copied_at_once, Access::write, true);
    std::memset(copy.to, 0, copied_at_once);
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
  mine.clear();
}

}  // namespace cuda_on_host
