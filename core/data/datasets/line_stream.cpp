#include "core/data/datasets/texts.h"
#include "platform/error.h"
#include "platform/json/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <fstream>
#include <utility>

namespace booster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
// Makes a sample of a line; `place` names it in errors.
using LineToSample =
    std::function<Sample(const std::string& line, const std::string& place, RandomStream& random)>;

// The files' bytes, one file after the other. Immutable.
struct Lines {
  const char* title;
  std::vector<fs::path> files = {};
  std::vector<int64_t> starts = {};  // where each file begins among all bytes, and the end
  bool is_pipe = false;              // a file is none that can be read from any place
  bool skips_blank = false;
  std::shared_ptr<const LineToSample> sample = nullptr;
};

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n") == std::string::npos;
}

// Reads the lines that begin within [begin, end) of all bytes.
class LinesOfShard : public StreamReader {
 public:
  LinesOfShard(std::shared_ptr<const Lines> lines, int64_t begin, int64_t end)
      : lines_(std::move(lines)), end_(end) {
    const auto& starts = lines_->starts;
    if (lines_->is_pipe) return;
    const auto after = std::upper_bound(starts.begin(), starts.end() - 1, begin);
    file_ = static_cast<size_t>(after - starts.begin()) - 1;
    offset_ = begin - starts[file_];
    if (offset_ == 0) return;
    --offset_;  // the line of the byte before belongs to the earlier shard
    std::string rest;
    read_line(rest);
  }

  MakeSample next() override {
    std::string line;
    do {
      while (!in_.is_open() || in_.peek() == std::ifstream::traits_type::eof())
        if (!open_next()) return nullptr;
      if (!lines_->is_pipe && lines_->starts[file_] + offset_ >= end_) return nullptr;
      place_ = offset_;
      read_line(line);
    } while (lines_->skips_blank && is_blank(line));
    if (line.ends_with('\r')) line.pop_back();
    length_ = static_cast<int64_t>(line.size());
    return [lines = lines_, file = file_, place = place_, line = std::move(line)](RandomStream& r) {
      const auto name = fmt::format("{}, byte {}", lines->files[file].string(), place);
      return (*lines->sample)(line, name, r);
    };
  }

  int64_t length() const override { return length_; }
  std::string state() const override {
    return lines_->is_pipe ? std::string() : Json{file_, offset_}.dump();
  }

  void load_state(const std::string& state) override {
    const Json at = json_if_whole(state);
    const bool is_place = at.is_array() && at.size() == 2 && at[0].is_number_unsigned() &&
                          at[1].is_number_unsigned() && at[0] <= lines_->files.size();
    if (!is_place) fail_data("{}: no place in the files; got {}", lines_->title, state);
    in_.close();
    file_ = at[0].get<size_t>();
    offset_ = at[1].get<int64_t>();
  }

 private:
  // Opens the current file at its offset or, at its end, the next one. Returns false at the end.
  bool open_next() {
    if (in_.is_open()) {
      if (in_.bad()) fail_run("{}: cannot be read", lines_->files[file_].string());
      in_.close();
      ++file_;
      offset_ = 0;
    }
    if (file_ == lines_->files.size()) return false;
    open();
    return true;
  }

  void open() {
    const fs::path& path = lines_->files[file_];
    in_.clear();
    in_.open(path, std::ios::binary);
    if (offset_ > 0) in_.seekg(offset_);
    if (!in_) fail_data("{}: cannot be opened for reading", path.string());
  }

  void read_line(std::string& line) {
    if (!in_.is_open()) open();
    std::getline(in_, line);
    if (in_.bad()) fail_run("{}: cannot be read", lines_->files[file_].string());
    offset_ += static_cast<int64_t>(line.size()) + (in_.eof() ? 0 : 1);
  }

  std::shared_ptr<const Lines> lines_;
  int64_t end_;
  size_t file_ = 0;
  int64_t offset_ = 0, place_ = 0;  // of the next line, and of the last one
  int64_t length_ = 0;              // of the last line
  std::ifstream in_;
};

class LineStream : public StreamDataset {
 public:
  LineStream(std::shared_ptr<const Lines> lines, int64_t shards)
      : lines_(std::move(lines)), shards_(shards) {}

  int64_t shards() const override { return shards_; }
  std::unique_ptr<StreamReader> open(int64_t shard, uint64_t) const override {
    if (lines_->is_pipe && is_used_.exchange(true))
      fail("{}: a pipe can be read once; want a file, or one epoch without repeated samples",
           lines_->title);
    const int64_t bytes = lines_->starts.back();
    const auto bound = [&](int64_t i) {
      return bytes / shards_ * i + bytes % shards_ * i / shards_;
    };
    return std::make_unique<LinesOfShard>(lines_, bound(shard), bound(shard + 1));
  }
  DatasetIdentity identity() const override {
    Fingerprint fingerprint;
    for (size_t i = 0; i < lines_->files.size(); ++i) {
      fingerprint.add(lines_->files[i].filename().string());
      fingerprint.add(lines_->starts[i]);
    }
    fingerprint.add(lines_->starts.back());
    return {.kind = lines_->title, .fingerprint = fingerprint.value()};
  }

 private:
  std::shared_ptr<const Lines> lines_;
  int64_t shards_;
  mutable std::atomic<bool> is_used_ = false;
};

int64_t shards_of(const Lines& lines, const LineOptions& options) {
  check(options.shards >= 0, "{}: shards out of range; got {}, want 0 or more", lines.title,
        options.shards);
  if (lines.is_pipe) {
    check(options.shards <= 1, "{}: a pipe has one shard; got {}, want 0 or 1", lines.title,
          options.shards);
    return 1;
  }
  if (options.shards > 0) return options.shards;
  constexpr int64_t shard_bytes = int64_t{1} << 20, most = 64;
  const int64_t fitting = std::clamp<int64_t>(lines.starts.back() / shard_bytes, 1, most);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(fitting)));
}

std::shared_ptr<const StreamDataset> stream_of_lines(Lines lines, const LineOptions& options) {
  check(!lines.files.empty(), "{}: no files; want one or more", lines.title);
  lines.starts = {0};
  for (const fs::path& file : lines.files) {
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    if (!fs::exists(status) || fs::is_directory(status))
      fail_data("{}: no such file; got '{}'", lines.title, file.string());
    lines.is_pipe |= !fs::is_regular_file(status);
    const auto bytes = fs::is_regular_file(status) ? fs::file_size(file, error) : 0;
    if (error) fail_data("{}: {}: {}", lines.title, file.string(), error.message());
    lines.starts.push_back(lines.starts.back() + static_cast<int64_t>(bytes));
  }
  const int64_t shards = shards_of(lines, options);
  return std::make_shared<LineStream>(std::make_shared<const Lines>(std::move(lines)), shards);
}

}  // namespace

std::shared_ptr<const StreamDataset> text_lines(
    std::vector<fs::path> files, std::function<Sample(const std::string&, RandomStream&)> sample,
    const LineOptions& options) {
  check(sample != nullptr, "text_lines: no function that makes a sample of a line; got null");
  const LineToSample make = [sample](const std::string& line, const std::string&, RandomStream& r) {
    return sample(line, r);
  };
  return stream_of_lines({.title = "text_lines",
                          .files = std::move(files),
                          .sample = std::make_shared<const LineToSample>(make)},
                         options);
}

std::shared_ptr<const StreamDataset> json_lines(
    std::vector<fs::path> files, std::function<Sample(const Json&, RandomStream&)> sample,
    const LineOptions& options) {
  check(sample != nullptr, "json_lines: no function that makes a sample of a value; got null");
  const LineToSample make = [sample](const std::string& line, const std::string& place,
                                     RandomStream& random) {
    const Json value = json_if_whole(line);
    if (value.is_discarded()) fail_data("{}: the line is not JSON", place);
    try {
      return sample(value, random);
    } catch (const Json::exception& error) {
      fail_data("{}: {}", place, error.what());
    }
  };
  return stream_of_lines({.title = "json_lines",
                          .files = std::move(files),
                          .skips_blank = true,
                          .sample = std::make_shared<const LineToSample>(make)},
                         options);
}

}  // namespace booster
