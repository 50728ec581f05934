#include "parallel/rendezvous/slow_wait.h"

#include "parallel/rendezvous/rendezvous.h"
#include "parallel/rendezvous/seconds.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <mutex>
#include <utility>

namespace booster {

SlowWait::SlowWait(int rank)
    : rank_(rank),
      since_(monotonic_seconds()),
      next_(since_ + seconds_variable("BOOSTER_SLOW_WAIT", 10).count() / 1000.0) {}

namespace {
// Several threads of this process may wait; the latest report is the note.
std::mutex noted_mutex;
int noted = 0;
}  // namespace

SlowWait::~SlowWait() {
  if (!noted_) return;
  const std::lock_guard lock(noted_mutex);
  if (--noted == 0) withdraw_note(RankNote::waits);
}

void SlowWait::still(const std::function<std::string()>& waits_for,
                     const std::function<std::string()>& where) {
  const double now = monotonic_seconds();
  if (now < next_) return;
  next_ = now + (now - since_);
  const LongWait wait{waits_for(), where(), since_};
  if (notes_are_read()) {
    const std::lock_guard lock(noted_mutex);
    if (!std::exchange(noted_, true)) ++noted;
    return put_note(RankNote::waits, wait.text());
  }
  warn(fmt::format("booster: {}; rank {} waits for it, at most {:g} s (BOOSTER_TIMEOUT)",
                   wait.told(), rank_, group_timeout().count() / 1000.0));
}

}  // namespace booster
