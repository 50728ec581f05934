#include "kernels/host/host_memory.h"

#include "platform/error.h"

#include <sys/mman.h>

#include <cstdlib>

namespace booster::kernels {

namespace {
constexpr size_t alignment = 64;
constexpr size_t huge_page = size_t{2} << 20;
}  // namespace

void* allocate_host(size_t bytes) {
  const size_t aligned_to = bytes >= huge_page ? huge_page : alignment;
  const size_t rounded = (bytes + aligned_to - 1) / aligned_to * aligned_to;
  void* data = std::aligned_alloc(aligned_to, rounded ? rounded : aligned_to);
  // Large blocks are kept for the whole run, so use huge pages to take page faults in 2 MB steps.
  if (data && aligned_to == huge_page) madvise(data, rounded, MADV_HUGEPAGE);
  return data;
}

void free_host(void* data) { std::free(data); }

void* allocate_scratch(size_t bytes) {
  void* data = allocate_host(bytes);
  if (!data) fail_run("memory: the system has no more memory; want {} bytes of scratch", bytes);
  return data;
}

}  // namespace booster::kernels
