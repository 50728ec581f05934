#include "core/data/datasets/datasets.h"

#include "platform/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace booster {
namespace {

Tensor window(const Tensor& tokens, int64_t start, int64_t length) {
  return untracked::cast(untracked::narrow(tokens, 0, start, length), DType::i64);
}

// Reads `bytes` as little-endian numbers of type U, and returns them as T.
template <class U, class T>
Tensor widened(const std::vector<char>& bytes) {
  std::vector<T> tokens(bytes.size() / sizeof(U));
  for (size_t i = 0; i < tokens.size(); ++i) {
    U token = 0;
    std::memcpy(&token, bytes.data() + i * sizeof(U), sizeof(U));
    tokens[i] = static_cast<T>(token);
  }
  return from_vector(tokens, {static_cast<int64_t>(tokens.size())});
}

}  // namespace

TokenDataset::TokenDataset(Tensor tokens, TokenDatasetOptions options)
    : tokens_(std::move(tokens)), options_(options) {
  if (options_.stride == 0) options_.stride = options_.length;
  check(options_.length >= 1 && options_.stride >= 1,
        "TokenDataset: length or stride out of range; got {} and {}, want 1 or more",
        options_.length, options_.stride);
  check(tokens_.ndim() == 1 && !is_floating(tokens_.dtype()) &&
            tokens_.device().type == DeviceType::cpu,
        "TokenDataset: want whole numbers (n) on the CPU; got {} {}", name_of(tokens_.dtype()),
        tokens_.shape());
  check(tokens_.numel() > options_.length,
        "TokenDataset: shorter than a window; got {} tokens, want {} or more", tokens_.numel(),
        options_.length + 1);
}

int64_t TokenDataset::size() const {
  return (tokens_.numel() - 1 - options_.length) / options_.stride + 1;
}

Sample TokenDataset::load(int64_t index, RandomStream&) const {
  check(index >= 0 && index < size(), "TokenDataset: index out of range; got {}, want 0 to {}",
        index, size() - 1);
  const int64_t start = index * options_.stride;
  return {window(tokens_, start, options_.length), window(tokens_, start + 1, options_.length)};
}

DatasetIdentity TokenDataset::identity() const {
  constexpr int64_t most_bytes = int64_t{1} << 20;
  Fingerprint fingerprint;
  fingerprint.add(options_.length);
  fingerprint.add(options_.stride);
  fingerprint.add(tokens_.numel());
  const int64_t read = std::min(tokens_.numel(), most_bytes / size_of(tokens_.dtype()));
  const Tensor first = untracked::contiguous(untracked::narrow(tokens_, 0, 0, read));
  fingerprint.add({static_cast<const char*>(first.data()), static_cast<size_t>(first.bytes())});
  return {.kind = "tokens", .samples = size(), .fingerprint = fingerprint.value()};
}

Tensor read_tokens(const std::string& path, TokenFileOptions options) {
  check(options.bytes == 1 || options.bytes == 2 || options.bytes == 4,
        "read_tokens: bytes of a token; got {}, want 1, 2 or 4", options.bytes);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // fails unless it is a regular file
  if (error) fail_data("read_tokens: cannot read '{}': {}", path, error.message());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(size);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    fail_data("read_tokens: cannot read '{}': {}", path, std::strerror(errno));
  if (bytes.size() % static_cast<size_t>(options.bytes) != 0)
    fail_data("read_tokens: '{}' ends within a token; got {} bytes, want a multiple of {}", path,
              bytes.size(), options.bytes);
  if (options.bytes == 1) return widened<uint8_t, uint8_t>(bytes);
  return options.bytes == 2 ? widened<uint16_t, int32_t>(bytes) : widened<uint32_t, int64_t>(bytes);
}

}  // namespace booster
