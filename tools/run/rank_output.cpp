#include "tools/run/rank_output.h"

#include "platform/error.h"
#include "platform/warn.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace booster {

namespace {

constexpr size_t kept_lines = 20;
constexpr size_t kept_line_bytes = 2000;
// A line without end is forwarded in pieces of this size.
constexpr size_t longest_line = 64 << 10;

}  // namespace

RankRecord::RankRecord(const std::string& log_path) : log_path_(log_path) {
  if (log_path.empty()) return;
  log_.reset(std::fopen(log_path.c_str(), "ae"));
  if (!log_) fail_run("--log_dir: cannot write {}: {}", log_path, std::strerror(errno));
}

std::string RankRecord::add_bytes(std::string_view bytes) {
  if (!log_) return "";
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), log_.get()) == bytes.size();
  if (written && std::fflush(log_.get()) == 0) return "";
  const std::string reason = std::strerror(errno);
  log_.reset();
  return fmt::format("cannot write {}: {}; the log ends here, the ranks continue", log_path_,
                     reason);
}

void RankRecord::add_line(std::string_view line) {
  last_lines_.emplace_back(line.substr(0, kept_line_bytes));
  if (last_lines_.size() > kept_lines) last_lines_.pop_front();
}

RankStream::RankStream(int source, Sink& sink, std::string prefix,
                       std::shared_ptr<RankRecord> record)
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
  if (const std::string trouble = record_->add_bytes(bytes); !trouble.empty())
    sink_.add(fmt::format("booster run: {}\n", terminal_text(trouble)));
  if (prefix_.empty()) sink_.add(bytes);
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
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!prefix_.empty()) sink_.add(fmt::format("{}{}\n", prefix_, terminal_line(line)));
}

}  // namespace booster
