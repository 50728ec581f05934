#include "examples/vit_caltech101/metrics.h"

#include <booster/booster.h>

#include <cerrno>
#include <cstring>

namespace example {

namespace fs = std::filesystem;

Metrics::Metrics(const fs::path& path, int64_t keep_bytes) : path_(path) {
  std::error_code error;
  if (fs::exists(path, error)) {
    const auto size = static_cast<int64_t>(fs::file_size(path, error));
    fs::resize_file(path, static_cast<uintmax_t>(std::min(size, keep_bytes)), error);
  }
  file_.open(path, std::ios::app);
  if (!file_)
    booster::fail_run("{}: cannot be opened for writing: {}", path.string(), std::strerror(errno));
}

void Metrics::add(const nlohmann::json& line) {
  file_ << line.dump() << '\n';
  file_.flush();
  if (!file_) booster::fail_run("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

int64_t Metrics::bytes() { return static_cast<int64_t>(file_.tellp()); }

std::vector<nlohmann::json> read_metrics(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object()) lines.push_back(object);
  }
  return lines;
}

}  // namespace example
