#include "examples/training/metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace example {

using namespace booster;

namespace {

// Returns the size of the complete lines in the first `limit` bytes.
int64_t whole_lines(const std::filesystem::path& path, int64_t limit) {
  const FileReader file(path);
  char piece[4096];
  for (int64_t end = limit; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - static_cast<int64_t>(sizeof piece));
    file.read(static_cast<uint64_t>(begin), piece, static_cast<size_t>(end - begin));
    for (int64_t i = end - begin; i > 0; --i)
      if (piece[i - 1] == '\n') return begin + i;
    end = begin;
  }
  return 0;
}

}  // namespace

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nullptr;
}

nlohmann::json written_out(nlohmann::json value) {
  if (value.is_structured())
    for (nlohmann::json& item : value) item = written_out(std::move(item));
  if (!value.is_string()) return value;
  try {
    static_cast<void>(value.dump());
    return value;
  } catch (const nlohmann::json::type_error&) {
    return terminal_text(value.get_ref<const std::string&>());
  }
}

Metrics::Metrics(const std::filesystem::path& path, int64_t keep_bytes)
    : path_(path), file_(std::make_unique<AppendedFile>(path, AppendedFile::Start::at_end)) {
  const int64_t kept = std::min(file_->bytes(), keep_bytes), whole = whole_lines(path, kept);
  broken_bytes_ = kept - whole;
  file_->keep(whole);
}

void Metrics::add(const nlohmann::json& line) {
  if (file_->is_lost()) {
    file_ = std::make_unique<AppendedFile>(path_, AppendedFile::Start::at_end);
    has_lost_lines_ = true;
  }
  file_->append(line.dump() + "\n");
}

}  // namespace example
