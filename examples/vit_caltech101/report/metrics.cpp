#include "examples/vit_caltech101/report/metrics.h"

#include <booster/booster.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

namespace example {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void cannot(const char* what, const fs::path& path, int reason) {
  booster::fail_run("{}: cannot be {}: {}", path.string(), what, std::strerror(reason));
}

// The whole lines in the first `limit` bytes.
int64_t whole_lines(int descriptor, int64_t limit) {
  char piece[4096];
  for (int64_t end = limit; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - static_cast<int64_t>(sizeof piece));
    const ssize_t n = ::pread(descriptor, piece, static_cast<size_t>(end - begin), begin);
    for (ssize_t i = n; i > 0; --i)
      if (piece[i - 1] == '\n') return begin + i;
    end = begin;
  }
  return 0;
}

}  // namespace

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nullptr;
}

Metrics::Metrics(const fs::path& path, int64_t keep_bytes) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) cannot("opened for writing", path_, errno);
  const int64_t kept = std::min<int64_t>(::lseek(descriptor_, 0, SEEK_END), keep_bytes);
  bytes_ = whole_lines(descriptor_, kept);
  broken_bytes_ = kept - bytes_;
  if (::ftruncate(descriptor_, bytes_) != 0) cannot("shortened", path_, errno);
}

Metrics::~Metrics() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Metrics::add(const nlohmann::json& line) {
  const std::string text = line.dump() + "\n";
  const ssize_t n = ::pwrite(descriptor_, text.data(), text.size(), bytes_);
  if (n == static_cast<ssize_t>(text.size())) {
    bytes_ += n;
    return;
  }
  const int reason = n < 0 ? errno : ENOSPC;  // a part was written: there is no room for the rest
  [[maybe_unused]] const int left = ::ftruncate(descriptor_, bytes_);
  cannot("written", path_, reason);
}

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
