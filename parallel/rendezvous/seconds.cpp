#include "parallel/rendezvous/seconds.h"

#include "platform/environment.h"
#include "platform/error.h"

namespace booster {

std::chrono::milliseconds seconds_variable(const char* name, double standard, bool may_be_never) {
  const double seconds = environment::number(name, standard);
  const bool legal = may_be_never ? seconds == 0 || seconds >= 1 : seconds > 0;
  check(legal && seconds < 1e7, "{}: want seconds, {}; got '{}'", name,
        may_be_never ? "1 or more, or 0 for never" : "a number above 0", environment::text(name));
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

}  // namespace booster
