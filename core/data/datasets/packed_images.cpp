#include "core/data/datasets/datasets.h"

#include "platform/error.h"

#include <cstring>
#include <utility>

namespace booster {

PackedImages::PackedImages(PackedContents contents, Compose transform)
    : transform_(std::move(transform)) {
  for (size_t i = 0; i < contents.labels.size(); ++i)
    if (contents.labels[i] >= contents.classes.size())
      fail_data("{}: label of image {} is out of range; got {}, want 0 to {}", contents.kind, i,
                contents.labels[i], contents.classes.size() - 1);
  contents_ = std::make_shared<const PackedContents>(std::move(contents));
}

int64_t PackedImages::size() const { return static_cast<int64_t>(contents_->labels.size()); }

Sample PackedImages::load(int64_t index, RandomStream& random) const {
  check(index >= 0 && index < size(), "{}: index out of range; got {}, want 0 to {}",
        contents_->kind, index, size() - 1);
  auto image = std::make_shared<Image>(contents_->width, contents_->height, contents_->channels);
  const size_t bytes = image->bytes();
  std::memcpy(image->data(), contents_->pixels.data() + static_cast<size_t>(index) * bytes, bytes);
  LazyImage lazy(std::move(image), fmt::format("{} image {}", contents_->kind, index));
  transform_.apply(lazy, random);
  return {std::move(lazy), label(index)};
}

DatasetIdentity PackedImages::identity() const {
  Fingerprint fingerprint;
  fingerprint.add({reinterpret_cast<const char*>(contents_->labels.data()),
                   contents_->labels.size()});
  return {.kind = contents_->kind,
          .samples = size(),
          .classes = static_cast<int64_t>(contents_->classes.size()),
          .fingerprint = fingerprint.value()};
}

const std::vector<std::string>& PackedImages::classes() const { return contents_->classes; }

int64_t PackedImages::label(int64_t index) const {
  return contents_->labels.at(static_cast<size_t>(index));
}

PackedImages PackedImages::with_transform(Compose transform) const {
  PackedImages copy = *this;
  copy.transform_ = std::move(transform);
  return copy;
}

}  // namespace booster
