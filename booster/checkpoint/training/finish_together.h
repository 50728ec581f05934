// Work that takes a different time on each rank (rank 0 writes a checkpoint, all read it).
// Afterwards all ranks know whether it succeeded.
#pragma once

#include "parallel/groups/group.h"

#include <exception>
#include <functional>
#include <future>

namespace booster {

// Runs `work` on its own thread; does nothing on this rank if `work` is empty. Ranks that are done
// wait for the others without a time limit; BOOSTER_TIMEOUT applies only to ranks that do not
// answer. If the work failed anywhere, every rank throws: its own error, or else one of kind failed
// that quotes the first rank with an error. The group stays usable. `what` begins messages.
// Collective; the work must not use the group.
void finish_together(const Group& group, const char* what, const std::function<void()>& work);

// The same for work that has already begun, for example on rank 0. An invalid future means no work
// on this rank.
void finish_together(const Group& group, const char* what, std::future<void> mine);

// Runs `work` on this thread; it may use the group. An error on any rank is an error on all.
void run_together(const Group& group, const char* what, const std::function<void()>& work);

// The final step of both: throws an Error on every rank if any rank has one (null: none).
void fail_together(const Group& group, const char* what, const std::exception_ptr& error);

}  // namespace booster
