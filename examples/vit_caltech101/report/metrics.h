// metrics.jsonl: one JSON object per logged step and per epoch, readable while the run continues.
#pragma once

#include <booster/booster.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>

namespace example {

class Metrics {
 public:
  // Appends to the file after its first `keep_bytes` bytes: lines that a killed run wrote after its
  // last checkpoint are dropped, since the resumed run writes them again. So is a last line without
  // its end, which a crash of the system can leave.
  Metrics(const std::filesystem::path& path, int64_t keep_bytes);

  // Adds a line, or nothing: then it is an Error of kind failed. Numbers that JSON cannot hold
  // (nan, infinity) become null.
  void add(const nlohmann::json& line);
  int64_t bytes() const { return file_.bytes(); }
  // Of the line without an end that was dropped.
  int64_t broken_bytes() const { return broken_bytes_; }

 private:
  booster::AppendedFile file_;
  int64_t broken_bytes_ = 0;
};

// A number as JSON can hold it: null for one that is not finite.
nlohmann::json number(double value);
// A value as JSON can hold it: of texts that are not UTF-8, as paths need not be, the bytes that
// are not are written out ("caf\xe9").
nlohmann::json written_out(nlohmann::json value);

}  // namespace example
