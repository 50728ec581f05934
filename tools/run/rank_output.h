// The output of one rank: forwarded line by line (or byte for byte) and logged; the last lines are
// kept.
#pragma once

#include "tools/run/sink.h"

#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

namespace booster {

// The log file and last lines of one rank, shared by its two streams.
class RankRecord {
 public:
  RankRecord() = default;
  // Appends to the file; does not log if the path is empty. Throws if it cannot be opened.
  explicit RankRecord(const std::string& log_path);
  // Appends to the log. Returns the reason of the first failed write; "" otherwise.
  std::string add_bytes(std::string_view bytes);
  void add_line(std::string_view line);  // to the last lines
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  std::string log_path_;
  std::unique_ptr<FILE, int (*)(FILE*)> log_{nullptr, std::fclose};
  std::deque<std::string> last_lines_;
};

// One stream of a rank: from the pipe `source` to a sink.
class RankStream {
 public:
  // With a prefix, forwards complete lines with the prefix before them; terminal control characters
  // except tabs and colours are written out. Without one, forwards bytes as they arrive.
  RankStream(int source, Sink& sink, std::string prefix, std::shared_ptr<RankRecord> record);
  ~RankStream();
  RankStream(RankStream&& other) noexcept;
  RankStream& operator=(RankStream&&) = delete;

  int source() const { return source_; }  // -1 at its end
  Sink& sink() const { return sink_; }
  // Reads what is available, without blocking. At the end of the stream, forwards a last line that
  // has no line break.
  void read_some();
  void finish();

 private:
  void take(std::string_view bytes);
  void pass_line(std::string_view line);

  int source_;
  Sink& sink_;
  std::string prefix_;
  std::shared_ptr<RankRecord> record_;
  std::string line_;  // incomplete line
};

}  // namespace booster
