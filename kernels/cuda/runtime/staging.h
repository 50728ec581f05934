// Memory of the host that GPUs read by themselves (pinned), and copies from it beside what the
// kernels compute. Thread-safe.
#pragma once

#include "kernels/device/moment.h"

#include <cstddef>
#include <memory>

namespace booster::kernels::cuda {

// For copies to this device; nullptr if the system has no more.
void* allocate_pinned(int device, size_t bytes);
// Perhaps after the runtime has ended: never throws.
void free_pinned(void* data);
// Queues a copy from pinned memory on a stream of its own, behind `after` alone (null: behind
// nothing). What is queued for kernels from now on runs behind the copy. Past when `from` may be
// written again.
std::shared_ptr<Moment> copy_beside(int device, void* to, const void* from, size_t bytes,
                                    Moment* after);

}  // namespace booster::kernels::cuda
