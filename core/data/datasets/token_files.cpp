#include "core/data/datasets/datasets.h"

#include "core/data/datasets/texts.h"
#include "platform/error.h"
#include "platform/json/json_text.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace booster {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

template <class T>
T value_at(const std::byte* memory, size_t offset) {
  T value{};
  std::memcpy(&value, memory + offset, sizeof(T));
  return value;
}

template <class T>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<int64_t>(value_at<T>(from, i * sizeof(T)));
}

// What `booster tokenize` wrote next to the file; 0 if there is no such note.
int noted_bytes(const std::string& path) {
  std::ifstream file(path + ".json");
  if (!file) return 0;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto note = json_if_whole(text);
  if (!note.is_object() || !note.contains("bytes_per_token")) return 0;
  return note["bytes_per_token"].is_number_integer() ? note["bytes_per_token"].get<int>() : 0;
}

}  // namespace

TokenFile::TokenFile(const std::string& path, TokenFormat format) : path_(path) {
  map();
  try {
    if (!read_llm_c_header() && !read_megatron_index()) find_tokens(format);
  } catch (...) {
    ::munmap(const_cast<std::byte*>(mapped_), mapped_bytes_);
    throw;
  }
}

TokenFile::~TokenFile() {
  if (mapped_bytes_ > 0) ::munmap(const_cast<std::byte*>(mapped_), mapped_bytes_);
}

void TokenFile::map() {
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_data("TokenFile: cannot read '{}': {}", path_, std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  mapped_bytes_ = regular ? static_cast<size_t>(status.st_size) : 0;
  void* memory = mapped_bytes_ == 0
                     ? nullptr
                     : ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (!regular) fail_data("TokenFile: '{}' is not a regular file", path_);
  if (mapped_bytes_ == 0) fail_data("TokenFile: '{}' is empty", path_);
  if (memory == MAP_FAILED)
    fail_data("TokenFile: cannot map '{}': {}", path_, std::strerror(error));
  mapped_ = static_cast<const std::byte*>(memory);
}

void TokenFile::find_tokens(TokenFormat format) {
  const int noted = format.bytes == 0 ? noted_bytes(path_) : format.bytes;
  width_ = noted == 0 ? 2 : noted;
  check(width_ == 2 || width_ == 4, "TokenFile: bytes of a token; got {}, want 2 or 4", width_);
  if (mapped_bytes_ % static_cast<size_t>(width_) != 0)
    fail_data("TokenFile: '{}' ends within a token; got {} bytes, want a multiple of {}", path_,
              mapped_bytes_, width_);
  count_ = static_cast<int64_t>(mapped_bytes_ / static_cast<size_t>(width_));
}

// 256 integers: a magic number, which tells the width of tokens, a version, and the number of
// tokens (dev/data/data_common.py of https://github.com/karpathy/llm.c).
bool TokenFile::read_llm_c_header() {
  constexpr size_t header = 256 * sizeof(int32_t);
  constexpr int32_t of_16_bits = 20240520, of_32_bits = 20240801;
  if (mapped_bytes_ < header) return false;
  const auto magic = value_at<int32_t>(mapped_, 0);
  if (magic != of_16_bits && magic != of_32_bits) return false;
  width_ = magic == of_16_bits ? 2 : 4;
  offset_ = header;
  count_ = value_at<uint32_t>(mapped_, 2 * sizeof(int32_t));
  const auto wanted = header + static_cast<size_t>(count_) * static_cast<size_t>(width_);
  if (mapped_bytes_ != wanted)
    fail_data("TokenFile: '{}' has {} tokens by its header; got {} bytes, want {}", path_, count_,
              mapped_bytes_, wanted);
  return true;
}

// FILE.idx beside FILE.bin: "MMIDIDX\0\0", u64 version 1, u8 code of the tokens' type
// (megatron/core/datasets/indexed_dataset.py of https://github.com/NVIDIA/Megatron-LM).
bool TokenFile::read_megatron_index() {
  constexpr char magic[] = "MMIDIDX\0";  // with its own end: 9 bytes
  std::filesystem::path path = path_;
  std::ifstream index(path.replace_extension(".idx"), std::ios::binary);
  char start[18] = {};
  if (!index || !index.read(start, sizeof(start)) || std::memcmp(start, magic, 9) != 0)
    return false;
  const int code = static_cast<unsigned char>(start[17]);
  if (code != 4 && code != 8)
    fail_data("TokenFile: '{}': tokens of type {}; want 4 (int32) or 8 (uint16)", path.string(),
              code);
  find_tokens({.bytes = code == 4 ? 4 : 2});
  return true;
}

void TokenFile::read(int64_t start, std::span<int64_t> out) const {
  const std::byte* from =
      mapped_ + offset_ + static_cast<size_t>(start) * static_cast<size_t>(width_);
  width_ == 2 ? widen<uint16_t>(from, out) : widen<uint32_t>(from, out);
}

std::span<const std::byte> TokenFile::bytes() const {
  return {mapped_ + offset_, mapped_bytes_ - offset_};
}

TokenFilesDataset::TokenFilesDataset(std::vector<WeightedTokens> files, TokenFilesOptions options)
    : files_(std::move(files)), options_(options) {
  if (options_.stride == 0) options_.stride = options_.length;
  check(options_.length >= 1 && options_.stride >= 1 && options_.samples >= 0,
        "TokenFilesDataset: length, stride or samples out of range; got {}, {} and {}",
        options_.length, options_.stride, options_.samples);
  check(!files_.empty(), "TokenFilesDataset: no files");
  for (const auto& [file, weight] : files_) {
    check(weight > 0, "TokenFilesDataset: {}: weight; got {}, want more than 0", file->path(),
          weight);
    if (file->size() <= options_.length)
      fail_data("TokenFilesDataset: '{}' is shorter than a window; got {} tokens, want {} or more",
                file->path(), file->size(), options_.length + 1);
  }
  const double all =
      std::accumulate(files_.begin(), files_.end(), 0.0,
                      [](double sum, const WeightedTokens& one) { return sum + one.weight; });
  for (WeightedTokens& one : files_) one.weight /= all;
  samples_ = options_.samples > 0 ? options_.samples : samples_of_an_epoch();
  if (files_.size() > 1) take_turns();
}

// Until the first file has given all of its windows.
int64_t TokenFilesDataset::samples_of_an_epoch() const {
  if (files_.size() == 1) return windows_of(0);
  double fewest = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    const double samples = static_cast<double>(windows_of(i)) / files_[i].weight;
    fewest = i == 0 ? samples : std::min(fewest, samples);
  }
  return static_cast<int64_t>(fewest + 1e-9);
}

// The file that is furthest behind its share is next; of equal ones the first.
void TokenFilesDataset::take_turns() {
  std::vector<int64_t> given(files_.size());
  for (int64_t sample = 0; sample < samples_; ++sample) {
    size_t next = 0;
    double furthest = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      const double behind =
          static_cast<double>(sample + 1) * files_[i].weight - static_cast<double>(given[i]);
      if (i > 0 && behind <= furthest) continue;
      furthest = behind;
      next = i;
    }
    turns_.push_back({static_cast<uint32_t>(next), given[next]++ % windows_of(next)});
  }
}

TokenFilesDataset::Turn TokenFilesDataset::turn_of(int64_t index) const {
  if (turns_.empty()) return {0, index % windows_of(0)};
  return turns_[static_cast<size_t>(index)];
}

int64_t TokenFilesDataset::windows_of(size_t file) const {
  return (files_[file].file->size() - 1 - options_.length) / options_.stride + 1;
}

Sample TokenFilesDataset::load(int64_t index, RandomStream&) const {
  check(index >= 0 && index < size(), "TokenFilesDataset: index out of range; got {}, want 0 to {}",
        index, size() - 1);
  const Turn turn = turn_of(index);
  std::vector<int64_t> tokens(static_cast<size_t>(options_.length) + 1);
  files_[turn.file].file->read(turn.window * options_.stride, tokens);
  std::vector<int64_t> next(tokens.begin() + 1, tokens.end());
  tokens.pop_back();
  for (size_t i = 0; options_.document_end && i < next.size(); ++i)
    if (tokens[i] == *options_.document_end) next[i] = ignored_token;
  return {from_vector(tokens, {options_.length}), from_vector(next, {options_.length})};
}

DatasetIdentity TokenFilesDataset::identity() const {
  Fingerprint fingerprint;
  fingerprint.add(options_.length);
  fingerprint.add(options_.stride);
  if (options_.document_end) fingerprint.add(*options_.document_end);
  for (const auto& [file, weight] : files_) {
    fingerprint.add(file->size());
    fingerprint.add(std::bit_cast<int64_t>(weight));
    const auto bytes = file->bytes();
    fingerprint.add(
        {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), size_t{1} << 20)});
  }
  return {.kind = "tokens", .samples = size(), .fingerprint = fingerprint.value()};
}

}  // namespace booster
