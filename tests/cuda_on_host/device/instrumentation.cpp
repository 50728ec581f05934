// The calls that the compiler inserts for -fsanitize=thread. Only the calls are used: instead of
// ThreadSanitizer's runtime they lead to tests/cuda_on_host/device/watch.h.
#include "tests/cuda_on_host/device/watch.h"

#include <cstdint>
#include <cstring>

using cuda_on_host::Access;
using cuda_on_host::watch;

#define ONE(name, bytes, access, aligned) \
  void __tsan_##name##bytes(void* p) { watch(p, bytes, Access::access, aligned); }
#define WATCHED(bytes)                               \
  ONE(read, bytes, read, true)                       \
  ONE(write, bytes, write, true)                     \
  ONE(unaligned_read, bytes, read, false)            \
  ONE(unaligned_write, bytes, write, false)          \
  ONE(volatile_read, bytes, relaxed, true)           \
  ONE(volatile_write, bytes, relaxed, true)          \
  ONE(unaligned_volatile_read, bytes, relaxed, true) \
  ONE(unaligned_volatile_write, bytes, relaxed, true)

#define ATOMIC(bits, type)                                                  \
  type __tsan_atomic##bits##_load(const volatile type* p, int) {            \
    watch(const_cast<const type*>(p), bits / 8, Access::relaxed, true);     \
    return *p;                                                              \
  }                                                                         \
  void __tsan_atomic##bits##_store(volatile type* p, type value, int) {     \
    watch(const_cast<const type*>(p), bits / 8, Access::relaxed, true);     \
    *p = value;                                                             \
  }                                                                         \
  type __tsan_atomic##bits##_fetch_add(volatile type* p, type value, int) { \
    watch(const_cast<const type*>(p), bits / 8, Access::relaxed, true);     \
    return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);                  \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, unsigned long bytes) {
  if (bytes) watch(p, bytes, Access::read, false);
}
void __tsan_write_range(void* p, unsigned long bytes) {
  if (bytes) watch(p, bytes, Access::write, false);
}
WATCHED(1)
WATCHED(2)
WATCHED(4)
WATCHED(8)
WATCHED(16)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

}  // extern "C"
