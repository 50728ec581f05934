#include "tests/cuda_on_host/device/arena.h"

#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/device/watch.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

namespace cuda_on_host {
namespace {

constexpr size_t page = 4096;

struct Allocation {
  size_t offset, bytes, pages;
  bool is_open = false, is_freed = false;
};

size_t configured_bytes() {
  const char* megabytes = std::getenv("CUDA_ON_HOST_MEMORY");
  return (megabytes && *megabytes ? std::strtoull(megabytes, nullptr, 10) : 4096) << 20;
}

class Arena {
 public:
  Arena();
  void* allocate(size_t bytes);
  bool release(void* data);
  std::string open(const char* address, size_t bytes);
  void close();
  bool has(const void* address) const {
    const char* p = static_cast<const char*>(address);
    return p >= base_ && p < base_ + address_space;
  }
  size_t offset_of(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - base_);
  }
  size_t left() const { return total_ - used_; }
  size_t total() const { return total_; }

 private:
  size_t find_room(size_t pages);
  void protect(const Allocation& allocation, int access);

  char* base_;
  size_t total_ = configured_bytes(), used_ = 0, top_ = page;
  std::deque<Allocation> allocations_;       // including freed ones, for fault texts
  std::map<size_t, Allocation*> by_offset_;  // alive
  Allocation** of_page_;                     // last allocation on each page
  std::multimap<size_t, size_t> room_;       // free ranges: pages -> offset
  std::vector<Allocation*> open_;
};

Arena& arena() {
  static Arena* arena = new Arena;  // never destroyed: memory may be freed late
  return *arena;
}

void on_bad_access(int, siginfo_t* info, void*) {
  if (arena().has(info->si_addr))
    fmt::print(stderr, "cuda_on_host: the host touched the device's memory at {} without a copy\n",
               info->si_addr);
  signal(SIGSEGV, SIG_DFL);  // the access is retried, and ends the process
}

Arena::Arena()
    : of_page_(static_cast<Allocation**>(std::calloc(address_space / page, sizeof(Allocation*)))) {
  void* memory =
      mmap(nullptr, address_space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  base_ = static_cast<char*>(memory);
  struct sigaction action = {};
  action.sa_sigaction = on_bad_access;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

void Arena::protect(const Allocation& allocation, int access) {
  mprotect(base_ + allocation.offset, allocation.pages * page, access);
}

// Reuses freed memory, so that code with a stale address reads another allocation's bytes.
size_t Arena::find_room(size_t pages) {
  const auto found = room_.find(pages);
  if (found != room_.end()) {
    const size_t offset = found->second;
    room_.erase(found);
    return offset;
  }
  const size_t offset = top_;
  if (offset + (pages + 1) * page > address_space) return 0;
  top_ += (pages + 1) * page;  // an unused guard page between allocations
  return offset;
}

void* Arena::allocate(size_t bytes) {
  const size_t pages = (bytes + page - 1) / page;
  if (used_ + pages * page > total_) return nullptr;
  const size_t offset = find_room(pages);
  if (offset == 0) return nullptr;
  used_ += pages * page;
  Allocation* allocation = &allocations_.emplace_back(Allocation{offset, bytes, pages});
  by_offset_[offset] = allocation;
  for (size_t i = 0; i < pages; ++i) of_page_[offset / page + i] = allocation;
  protect(*allocation, PROT_READ | PROT_WRITE);
  std::memset(base_ + offset, 0xFF, pages * page);  // nan
  forget_accesses(offset, bytes);
  protect(*allocation, PROT_NONE);
  return base_ + offset;
}

bool Arena::release(void* data) {
  const auto found = by_offset_.find(has(data) ? offset_of(data) : 0);
  if (found == by_offset_.end()) return false;
  Allocation& allocation = *found->second;
  allocation.is_freed = true;
  used_ -= allocation.pages * page;
  room_.emplace(allocation.pages, allocation.offset);
  by_offset_.erase(found);
  if (!allocation.is_open) protect(allocation, PROT_READ | PROT_WRITE);
  madvise(base_ + allocation.offset, allocation.pages * page, MADV_DONTNEED);
  protect(allocation, PROT_NONE);
  allocation.is_open = false;
  return true;
}

std::string Arena::open(const char* address, size_t bytes) {
  const size_t offset = offset_of(address);
  Allocation* allocation = of_page_[offset / page];
  if (!allocation) return "memory that was never allocated";
  const size_t at = offset - allocation->offset;
  if (allocation->is_freed)
    return fmt::format("byte {} of {} that were freed", at, allocation->bytes);
  if (at + bytes > allocation->bytes)
    return fmt::format("bytes {} to {} of an allocation of {}", at, at + bytes - 1,
                       allocation->bytes);
  if (!allocation->is_open) {
    allocation->is_open = true;
    open_.push_back(allocation);
    protect(*allocation, PROT_READ | PROT_WRITE);
  }
  return "";
}

void Arena::close() {
  for (Allocation* allocation : open_) {
    if (allocation->is_open) protect(*allocation, PROT_NONE);
    allocation->is_open = false;
  }
  open_.clear();
}

}  // namespace

void* allocate_on_device(size_t bytes) { return arena().allocate(bytes); }
bool free_on_device(void* data) { return arena().release(data); }
size_t free_device_bytes() { return arena().left(); }
size_t all_device_bytes() { return arena().total(); }
bool is_on_device(const void* address) { return arena().has(address); }
size_t offset_on_device(const void* address) { return arena().offset_of(address); }
void close_device() { arena().close(); }
std::string open_on_device(const void* address, size_t bytes) {
  return arena().open(static_cast<const char*>(address), bytes);
}

}  // namespace cuda_on_host
