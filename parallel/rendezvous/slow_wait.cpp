#include "parallel/rendezvous/slow_wait.h"

#include "kernels/system/error.h"
#include "parallel/rendezvous/rendezvous.h"

#include <cstdio>
#include <cstdlib>

namespace booster {

namespace {

double seconds_before_telling() {
  const char* text = std::getenv("BOOSTER_SLOW_WAIT");
  if (!text || !*text) return 10;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  check(*end == 0 && seconds > 0 && seconds < 1e7,
        "BOOSTER_SLOW_WAIT: want seconds, a number above 0; got '{}'", text);
  return seconds;
}

}  // namespace

SlowWait::SlowWait(int rank)
    : rank_(rank), since_(monotonic_seconds()), next_(since_ + seconds_before_telling()) {}

SlowWait::~SlowWait() {
  if (noted_) withdraw_note(RankNote::waits);
}

void SlowWait::still(const std::function<std::string()>& waits_for,
                     const std::function<std::string()>& where) {
  const double now = monotonic_seconds();
  if (now < next_) return;
  next_ = now + (now - since_);
  const LongWait wait{waits_for(), where(), since_};
  noted_ = notes_are_read();
  if (noted_) return put_note(RankNote::waits, wait.text());
  const std::string text =
      fmt::format("booster: {}; rank {} waits for it, at most {:g} s (BOOSTER_TIMEOUT)\n",
                  wait.told(), rank_, group_timeout().count() / 1000.0);
  std::fputs(text.c_str(), stderr);
}

}  // namespace booster
