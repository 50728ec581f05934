// The building blocks of saves that go on while training continues.
#pragma once

#include "booster/checkpoint/training_checkpoint.h"

#include <functional>

namespace booster {

// Runs `write` on a thread; does nothing on this rank if `write` is empty.
PendingSave begin_save(Session& session, std::function<void()> write);
// Waits for the last save of this training, unless wait() was called for it.
void finish_last_save(Session& session);

}  // namespace booster
