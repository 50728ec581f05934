#include "tests/cuda_on_host/device/watch.h"

#include "tests/cuda_on_host/device/arena.h"
#include "tests/cuda_on_host/device/block.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/shared.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace cuda_on_host {
namespace {

// The accessor of a byte, in 64 bits; 0: none. Fields that overflow lose their high bits, so the
// emulator may miss a race. A false report needs a byte without access for 4,096 barriers or 4
// million launches.
using Mark = uint64_t;
struct Parts {
  uint64_t launch : 22, block : 12, thread : 10, barriers : 12, meetings : 8;
};

Mark mark_of(const Accessor& by) {
  const Parts parts = {by.launch, by.block, by.thread, by.barriers, by.meetings};
  return __builtin_bit_cast(Mark, parts);
}

bool may_coincide(Mark earlier, Mark now) {
  const Parts a = __builtin_bit_cast(Parts, earlier), b = __builtin_bit_cast(Parts, now);
  if (earlier == 0 || a.launch != b.launch) return false;
  if (a.block != b.block) return true;
  if (a.thread == b.thread || a.barriers != b.barriers) return false;
  const bool same_warp = a.thread / 32 == b.thread / 32;
  return !same_warp || a.meetings == b.meetings;
}

// The history of each byte in a memory range. Only pages in use take memory.
class History {
 public:
  explicit History(size_t bytes) : written_(reserve<char>(bytes)), last_(reserve<Last>(bytes)) {}
  void forget(size_t offset, size_t bytes) { std::fill_n(written_ + offset, bytes, 0); }
  void forget_who(size_t offset, size_t bytes) { std::fill_n(last_ + offset, bytes, Last{}); }
  void mark_written(size_t offset, size_t bytes) { std::fill_n(written_ + offset, bytes, 1); }
  bool is_written(size_t offset, size_t bytes) const {
    const char* from = written_ + offset;
    return std::find(from, from + bytes, 0) == from + bytes;
  }
  // Returns "" or what is wrong.
  const char* access(size_t offset, size_t bytes, Access access, Mark now);

 private:
  struct Last {
    Mark writer, reader;
  };
  template <class T>
  static T* reserve(size_t count) {
    void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return static_cast<T*>(memory);
  }
  char* written_;
  Last* last_;
};

const char* History::access(size_t offset, size_t bytes, Access access, Mark now) {
  const char* wrong = "";
  if (access == Access::relaxed) {
    std::fill_n(written_ + offset, bytes, 1);
    return wrong;
  }
  const bool writes = access == Access::write;
  // Accesses to one place nearly always have the same size, so checking both ends suffices.
  for (const size_t at : {offset, offset + bytes - 1}) {
    Last& last = last_[at];
    if (may_coincide(last.writer, now))
      wrong = "another thread writes, with no order between them,";
    if (writes && may_coincide(last.reader, now))
      wrong = "another thread reads, with no order between them,";
    (writes ? last.writer : last.reader) = now;
  }
  if (writes)
    std::fill_n(written_ + offset, bytes, 1);
  else if (!is_written(offset, bytes))
    wrong = "nobody has written";
  return wrong;
}

History& of_device() {
  static History* history = new History(address_space);
  return *history;
}
History& of_block() {
  static History* history = new History(4 * most_shared_bytes);
  return *history;
}

const char* name_of(Access access) { return access == Access::read ? "reads" : "writes"; }

void complain_of(const char* wrong, Access access, const char* memory, size_t bytes) {
  if (!*wrong) return;
  fault("a kernel {} {} bytes of {} memory that {}", name_of(access), bytes, memory, wrong);
}

void watch_device(const void* address, size_t bytes, Access access) {
  const std::string wrong = open_on_device(address, bytes);
  if (!wrong.empty()) fault("a kernel {} {}", name_of(access), wrong);
  complain_of(of_device().access(offset_on_device(address), bytes, access, mark_of(accessor())),
              access, "global", bytes);
}

void watch_shared(const void* address, size_t bytes, Access access) {
  const SharedRange range = shared_range(address, bytes);
  if (!range.inside)
    fault("a kernel {} shared memory outside of what it declares", name_of(access));
  complain_of(of_block().access(range.offset, bytes, access, mark_of(accessor())), access, "shared",
              bytes);
}

}  // namespace

void forget_accesses(size_t offset, size_t bytes) { of_device().forget(offset, bytes); }
void mark_written(const void* address, size_t bytes) {
  of_device().mark_written(offset_on_device(address), bytes);
}
bool is_written(const void* address, size_t bytes) {
  return of_device().is_written(offset_on_device(address), bytes);
}
void forget_shared_accesses(size_t offset, size_t bytes, bool and_by_whom) {
  of_block().forget(offset, bytes);
  if (and_by_whom) of_block().forget_who(offset, bytes);
}

// The compiler aligns variables and arguments correctly by itself.
void check_alignment(const void* address, size_t bytes, Access access) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    fault("a kernel {} {} bytes at an address that is no multiple of {}", name_of(access), bytes,
          bytes);
}

void watch_beyond_stack(const void* address, size_t bytes, Access access, bool aligned) {
  if (!is_in_kernel()) return;
  if (is_on_device(address)) {
    if (aligned) check_alignment(address, bytes, access);
    return watch_device(address, bytes, access);
  }
  switch (place_of(address)) {
    case Place::shared:
      if (aligned) check_alignment(address, bytes, access);
      return watch_shared(address, bytes, access);
    case Place::argument:
      if (access != Access::read) fault("a kernel writes its arguments");
      return;
    case Place::other_stack: fault("a kernel {} another thread's variables", name_of(access));
    case Place::elsewhere: fault("a kernel {} memory of the host at {}", name_of(access), address);
  }
}

}  // namespace cuda_on_host
