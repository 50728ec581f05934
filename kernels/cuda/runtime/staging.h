// Host memory that GPUs access directly (pinned), and copies from it that overlap with kernels.
// Thread-safe.
#pragma once

#include "kernels/device/event.h"

#include <cstddef>
#include <memory>

namespace booster::kernels::cuda {

// Allocates for copies to this device; nullptr if the system has no more.
void* allocate_pinned(int device, size_t bytes);
// Frees pinned memory. Never throws, since the runtime may already have ended.
void free_pinned(void* data);
// Queues a copy from pinned memory on a separate stream, which waits only for `after` (if not
// null). Kernels queued from now on run after the copy. Once the returned event is past, `from` may
// be written again.
std::shared_ptr<Event> copy_beside(int device, void* to, const void* from, size_t bytes,
                                   Event* after);

}  // namespace booster::kernels::cuda
