// Work that takes ranks unlike long (rank 0 writes a checkpoint, all read it), after which all know
// whether it is done.
#pragma once

#include "parallel/groups/group.h"

#include <exception>
#include <functional>
#include <future>

namespace booster {

// Runs `work` (empty: none here) on a thread of its own, while ranks that are done wait for the
// others however long they take: BOOSTER_TIMEOUT is for ranks that do not answer. If it failed
// anywhere, every rank gets an Error: its own, else one of kind failed with that of the first rank
// that has one. The group stays usable. `what` begins messages. All ranks call it; the work must
// not use the group.
void finish_together(const Group& group, const char* what, const std::function<void()>& work);

// The same for work that began before, on rank 0 say; not valid: none here.
void finish_together(const Group& group, const char* what, std::future<void> mine);

// Runs `work` on this thread, which may use the group; an error on any rank is one on all.
void run_together(const Group& group, const char* what, const std::function<void()>& work);

// The end of that: an Error on every rank if any has one (null: none).
void fail_together(const Group& group, const char* what, const std::exception_ptr& error);

}  // namespace booster
