// metrics.jsonl: one JSON object per logged step and per epoch, readable while the run continues.
#pragma once

#include <booster/booster.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>

namespace example {

class Metrics {
 public:
  // Appends to the file after its first `keep_bytes` bytes. Later lines are dropped: a killed run
  // wrote them after its last checkpoint, and the resumed run writes them again. Also drops an
  // incomplete last line, which a system crash can leave.
  Metrics(const std::filesystem::path& path, int64_t keep_bytes);

  // Adds a line, or throws an Error of kind failed and adds nothing. Values that JSON cannot hold
  // (nan, infinity) become null. Begins the file anew if it was removed or replaced.
  void add(const nlohmann::json& line);
  // Returns once all lines are on the disk.
  void sync() { file_->sync(); }
  int64_t bytes() const { return file_->bytes(); }
  // Returns true if lines are lost, because the file was removed or replaced.
  bool has_lost_lines() const { return has_lost_lines_ || file_->is_lost(); }
  // Returns the size of the incomplete line that was dropped.
  int64_t broken_bytes() const { return broken_bytes_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<booster::AppendedFile> file_;
  int64_t broken_bytes_ = 0;
  bool has_lost_lines_ = false;
};

// Returns the value as JSON can hold it: null if it is not finite.
nlohmann::json number(double value);
// Returns the value as JSON can hold it. Texts such as paths may be invalid UTF-8; their invalid
// bytes are written out ("caf\xe9").
nlohmann::json written_out(nlohmann::json value);

}  // namespace example
