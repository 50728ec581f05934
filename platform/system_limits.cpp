#include "platform/system_limits.h"

#include <cerrno>
#include <ios>
#include <new>

namespace booster {

std::string text_of_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "the system gives no more memory; want a higher limit (ulimit -v, or the container's), "
           "a "
           "smaller batch or a smaller model";
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  if (!system || system->code().category() == std::iostream_category()) return error.what();
  switch (system->code().value()) {
    case EAGAIN:
      return "the system starts no more threads or processes; want a higher limit (ulimit -u, or "
             "the container's), or fewer of them (OMP_NUM_THREADS, workers)";
    case ENOMEM:
      return "the system gives no more memory; want a higher limit (ulimit -v, or the container's)";
    case EMFILE:
    case ENFILE: return "the system opens no more files; want a higher limit (ulimit -n)";
    default: return error.what();
  }
}

}  // namespace booster
