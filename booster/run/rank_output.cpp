#include "booster/run/rank_output.h"

#include "kernels/system/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace booster {

namespace {

constexpr size_t kept_lines = 20;
constexpr size_t kept_line_bytes = 2000;
// An endless line is forwarded in pieces of this size.
constexpr size_t longest_line = 64 << 10;

// If the sink is closed (`booster run ... | head`), output is dropped and the ranks continue.
void write_all(int sink, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(sink, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

RankRecord::RankRecord(const std::string& log_path) {
  if (log_path.empty()) return;
  log_.reset(std::fopen(log_path.c_str(), "ae"));
  if (!log_) fail_run("--log_dir: cannot write {}: {}", log_path, std::strerror(errno));
}

void RankRecord::add_bytes(std::string_view bytes) {
  if (!log_) return;
  std::fwrite(bytes.data(), 1, bytes.size(), log_.get());
  std::fflush(log_.get());
}

void RankRecord::add_line(std::string_view line) {
  last_lines_.emplace_back(line.substr(0, kept_line_bytes));
  if (last_lines_.size() > kept_lines) last_lines_.pop_front();
}

RankStream::RankStream(int source, int sink, std::string prefix, std::shared_ptr<RankRecord> record)
    : source_(source), sink_(sink), prefix_(std::move(prefix)), record_(std::move(record)) {
  fcntl(source_, F_SETFL, O_NONBLOCK);
}

RankStream::RankStream(RankStream&& other) noexcept
    : source_(std::exchange(other.source_, -1)),
      sink_(other.sink_),
      prefix_(std::move(other.prefix_)),
      record_(std::move(other.record_)),
      line_(std::move(other.line_)) {}

RankStream::~RankStream() {
  if (source_ >= 0) close(source_);
}

void RankStream::read_some() {
  char bytes[1 << 16];
  const ssize_t n = read(source_, bytes, sizeof bytes);
  if (n > 0) return take({bytes, static_cast<size_t>(n)});
  if (n == 0) finish();
}

void RankStream::finish() {
  if (source_ < 0) return;
  if (!line_.empty()) pass_line(line_);
  line_.clear();
  close(source_);
  source_ = -1;
}

void RankStream::take(std::string_view bytes) {
  record_->add_bytes(bytes);
  if (prefix_.empty()) write_all(sink_, bytes);
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    const bool ended = end != std::string_view::npos;
    bytes.remove_prefix(ended ? end + 1 : bytes.size());
    if (!ended && line_.size() < longest_line) return;
    pass_line(line_);
    line_.clear();
  }
}

void RankStream::pass_line(std::string_view line) {
  record_->add_line(line);
  if (!prefix_.empty()) write_all(sink_, fmt::format("{}{}\n", prefix_, line));
}

}  // namespace booster
