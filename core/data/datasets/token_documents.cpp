#include "core/data/datasets/texts.h"
#include "platform/error.h"

#include <algorithm>

namespace booster {

TokenDocuments::TokenDocuments(std::vector<std::shared_ptr<const TokenFile>> files,
                               int32_t document_end)
    : files_(std::move(files)), document_end_(document_end) {
  for (size_t file = 0; file < files_.size(); ++file) part(file);
  if (documents_.empty()) fail_data("TokenDocuments: no document in {} files", files_.size());
}

void TokenDocuments::part(size_t file) {
  constexpr int64_t at_a_time = int64_t{1} << 16;
  std::vector<int64_t> tokens(static_cast<size_t>(at_a_time));
  const int64_t all = files_[file]->size();
  int64_t begin = 0;
  const auto add = [&](int64_t length) {
    if (length > 1) documents_.push_back({file, begin, length});
    begin += length;
  };
  for (int64_t at = 0; at < all; at += at_a_time) {
    const auto here = std::span(tokens).first(static_cast<size_t>(std::min(at_a_time, all - at)));
    files_[file]->read(at, here);
    for (size_t i = 0; i < here.size(); ++i)
      if (here[i] == document_end_) add(at + static_cast<int64_t>(i) + 1 - begin);
  }
  if (begin < all) add(all - begin + 1);
}

int64_t TokenDocuments::length(int64_t sequence) const {
  return documents_.at(static_cast<size_t>(sequence)).length;
}

void TokenDocuments::read(int64_t sequence, int64_t start, std::span<int64_t> tokens,
                          std::span<int64_t> labels) const {
  const auto& [file, begin, length] = documents_.at(static_cast<size_t>(sequence));
  const auto count = static_cast<int64_t>(tokens.size());
  // Without its end, which may not be in the file.
  const int64_t in_file = std::clamp<int64_t>(length - 1 - start, 0, count + 1);
  std::vector<int64_t> own(static_cast<size_t>(count) + 1, document_end_);
  files_[file]->read(begin + start, std::span(own).first(static_cast<size_t>(in_file)));
  std::copy_n(own.begin(), count, tokens.begin());
  std::copy_n(own.begin() + 1, count, labels.begin());
  if (start + count == length) labels.back() = ignored_token;
}

uint64_t TokenDocuments::fingerprint() const {
  Fingerprint fingerprint;
  fingerprint.add(document_end_);
  for (const auto& file : files_) {
    fingerprint.add(file->size());
    const auto bytes = file->bytes();
    fingerprint.add(
        {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), size_t{1} << 20)});
  }
  return fingerprint.value();
}

}  // namespace booster
