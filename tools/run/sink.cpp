#include "tools/run/sink.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace booster {

namespace {

constexpr size_t full_bytes = 1 << 20;

bool takes_more(int file) {
  pollfd ready = {file, POLLOUT, 0};
  return poll(&ready, 1, 0) > 0;
}

}  // namespace

// Opens a second file description of the same pipe or terminal and makes it non-blocking. The first
// description is shared with other processes, such as the shell.
Sink::Sink(int file) : file_(file) {
  struct stat found = {};
  if (fstat(file, &found) != 0 || !(S_ISFIFO(found.st_mode) || S_ISCHR(found.st_mode))) return;
  const std::string path = fmt::format("/proc/self/fd/{}", file);
  const int second = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (second < 0) return;
  file_ = second;
  own_file_ = true;
}

Sink::~Sink() {
  if (own_file_) close(file_);
}

void Sink::add(std::string_view bytes) { text_ += bytes; }

// If the description is shared, a ready pipe takes at least PIPE_BUF bytes without blocking.
void Sink::write_some() {
  size_t done = 0;
  while (done < text_.size() && (own_file_ || takes_more(file_))) {
    const size_t most = own_file_ ? text_.size() : PIPE_BUF;
    const ssize_t n = write(file_, text_.data() + done, std::min(most, text_.size() - done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0 && !told_ && errno != EPIPE && errno != EIO) trouble_ = std::strerror(errno);
    done = n < 0 ? text_.size() : done + static_cast<size_t>(n);
  }
  text_.erase(0, done);
}

bool Sink::is_full() const { return text_.size() > full_bytes; }

std::string Sink::take_trouble() {
  if (!trouble_.empty()) told_ = true;
  return std::exchange(trouble_, "");
}

}  // namespace booster
