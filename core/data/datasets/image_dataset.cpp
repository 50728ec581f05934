#include "core/data/datasets/datasets.h"

#include "core/data/datasets/image_listing.h"
#include "core/data/gpu/gpu_image_cache.h"
#include "core/data/images/image_cache.h"
#include "core/data/images/stored_image.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

namespace booster {
namespace fs = std::filesystem;

struct ImageDataset::Files {
  std::string root;
  std::shared_ptr<const ImageFiles> files;
  ImageListing list;
  DecodeOptions decode;
  std::unique_ptr<ImageCache> cache;            // null without a budget
  std::unique_ptr<GpuImageCache> device_cache;  // the same

  std::shared_ptr<const Image> image(size_t file) const {
    std::shared_ptr<const Image> image = cache ? cache->find(file) : nullptr;
    if (image) return image;
    const std::string& path = list.paths[file];
    image = std::make_shared<Image>(decode_image(files->read(path), path, decode));
    if (cache) cache->offer(file, image);
    return image;
  }
};

// An image of a data set with a cache on a GPU.
class ImageDataset::KeptImage : public StoredImage {
 public:
  KeptImage(std::shared_ptr<const Files> files, size_t file)
      : files_(std::move(files)), file_(file), kept_(files_->device_cache->find(file)) {
    if (!kept_) image_ = files_->image(file_);
  }
  int width() const override { return kept_ ? kept_->width : image_->width(); }
  int height() const override { return kept_ ? kept_->height : image_->height(); }
  int channels() const override { return kept_ ? kept_->channels : image_->channels(); }
  std::shared_ptr<const Image> pixels() const override {
    return image_ ? image_ : files_->image(file_);
  }
  const uint8_t* on(Device device) const override {
    GpuImageCache& cache = *files_->device_cache;
    if (device != cache.device()) return nullptr;
    const auto kept = kept_ ? kept_ : cache.offer(file_, *image_);
    return kept ? kept->address : nullptr;
  }
  // Does not read the file: null if the image is only on the GPU.
  const std::shared_ptr<const Image>& decoded() const { return image_; }

 private:
  std::shared_ptr<const Files> files_;
  size_t file_;
  std::optional<GpuImageCache::Kept> kept_;
  std::shared_ptr<const Image> image_;  // null if it is kept on the GPU
};

ImageDataset::ImageDataset(const char* what, const std::string& root,
                           const std::vector<std::string>& excluded, ImageDatasetOptions options)
    : transform_(std::move(options.transform)) {
  auto files = std::make_shared<Files>();
  files->root = root;
  files->files = open_image_files(what, root);
  files->list = list_images(what, root, *files->files, excluded, std::move(options.classes));
  if (const std::string& text = files->list.left_out; !text.empty()) {
    const std::string line = fmt::format("{}: '{}': {}", what, terminal_text(root), text);
    options.report ? options.report(line) : warn(line);
  }
  files->decode.apply_orientation = options.apply_orientation;
  items_.resize(files->list.paths.size());
  if (options.cache_bytes > 0)
    files->cache = std::make_unique<ImageCache>(options.cache_bytes, items_.size());
  if (options.device_cache_bytes > 0 && options.device.type == DeviceType::cuda)
    files->device_cache =
        std::make_unique<GpuImageCache>(options.device, options.device_cache_bytes, items_.size());
  std::iota(items_.begin(), items_.end(), 0);
  files_ = std::move(files);
}

Sample ImageDataset::load(int64_t index, RandomStream& random) const {
  const auto file = static_cast<size_t>(items_.at(index));
  LazyImage lazy = lazy_image(file);
  transform_.apply(lazy, random);
  return {std::move(lazy), files_->list.labels[file]};
}

LazyImage ImageDataset::lazy_image(size_t file) const {
  const std::string& path = files_->list.paths[file];
  if (!files_->device_cache) return {files_->image(file), path};
  auto stored = std::make_shared<KeptImage>(files_, file);
  return {stored, stored->decoded(), path};
}

DatasetIdentity ImageDataset::identity() const {
  Fingerprint fingerprint;
  for (const std::string& name : classes()) fingerprint.add(name);
  for (const int64_t file : items_) {
    const std::string_view whole = files_->list.paths[file];
    const std::string_view below = whole.substr(files_->root.size());
    fingerprint.add(below.substr(std::min(below.find_first_not_of('/'), below.size())));
  }
  return {.kind = "image files",
          .samples = size(),
          .classes = static_cast<int64_t>(classes().size()),
          .fingerprint = fingerprint.value()};
}

const std::vector<std::string>& ImageDataset::classes() const { return files_->list.classes; }
const std::string& ImageDataset::path(int64_t index) const {
  return files_->list.paths[items_.at(index)];
}
int64_t ImageDataset::label(int64_t index) const { return files_->list.labels[items_.at(index)]; }
std::vector<uint8_t> ImageDataset::file_bytes(int64_t index) const {
  return files_->files->read(path(index));
}

ImageDataset ImageDataset::with_transform(Compose transform) const {
  ImageDataset copy = *this;
  copy.transform_ = std::move(transform);
  return copy;
}

ImageDataset ImageDataset::subset(const std::vector<int64_t>& indices) const {
  ImageDataset copy = *this;
  copy.items_.clear();
  for (size_t i = 0; i < indices.size(); ++i) {
    check(indices[i] >= 0 && indices[i] < size(),
          "subset: index out of range; got {} at position {}, want 0 to {}", indices[i], i,
          size() - 1);
    copy.items_.push_back(items_[static_cast<size_t>(indices[i])]);
  }
  return copy;
}

namespace {

// Moves `chosen` elements, picked at random, to the front.
void choose(std::vector<int64_t>& indices, size_t chosen, RandomStream random) {
  for (size_t i = 0; i < chosen; ++i)
    std::swap(indices[i], indices[i + random.below(static_cast<int64_t>(indices.size() - i))]);
}

}  // namespace

ImageDataset::Split ImageDataset::split(double fraction, uint64_t seed) const {
  check(fraction > 0 && fraction < 1,
        "split: validation fraction out of range; got {}, want more than 0 and less than 1",
        fraction);
  std::vector<std::vector<int64_t>> by_class(classes().size());
  for (int64_t i = 0; i < size(); ++i) by_class[label(i)].push_back(i);
  std::vector<int64_t> train, validation;
  for (size_t c = 0; c < by_class.size(); ++c) {
    auto& indices = by_class[c];
    if (indices.empty()) continue;
    const auto wanted = static_cast<size_t>(std::lround(fraction * indices.size()));
    const size_t n = std::min(std::max<size_t>(wanted, 1), indices.size() - 1);
    choose(indices, n, RandomStream(seed, 0, c));
    validation.insert(validation.end(), indices.begin(), indices.begin() + n);
    train.insert(train.end(), indices.begin() + n, indices.end());
  }
  std::sort(train.begin(), train.end());
  std::sort(validation.begin(), validation.end());
  return {subset(train), subset(validation)};
}

std::vector<std::string> image_folders(const std::string& root) {
  std::error_code error;
  fs::path there = root;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const bool is_there = fs::is_directory(root, error) || fs::is_regular_file(there, error);
  LeftOut not_told;
  return is_there ? open_image_files("images", root)->folders(not_told)
                  : std::vector<std::string>{};
}

ImageFolder::ImageFolder(const std::string& root, ImageDatasetOptions options)
    : ImageDataset("ImageFolder", root, {}, std::move(options)) {}

namespace {

std::string find_caltech101(const std::string& root) {
  const std::string own = "101_ObjectCategories", around = "caltech101";
  const auto folders = image_folders(root), inner = image_folders(root + "/" + around);
  if (std::ranges::find(folders, own) != folders.end()) return (fs::path(root) / own).string();
  if (std::ranges::find(inner, own) != inner.end()) return (fs::path(root) / around / own).string();
  fail_data("Caltech101: {} '{}'; want a folder {} or {}/{} in it",
            fs::exists(root) ? "no images in" : "no such folder; got", root, own, around, own);
}

}  // namespace

Caltech101::Caltech101(const std::string& root, Caltech101Options options)
    : ImageDataset("Caltech101", find_caltech101(root),
                   options.background ? std::vector<std::string>{}
                                      : std::vector<std::string>{"BACKGROUND_Google"},
                   {.transform = std::move(options.transform),
                    .cache_bytes = options.cache_bytes,
                    .device = options.device,
                    .device_cache_bytes = options.device_cache_bytes,
                    .apply_orientation = options.apply_orientation,
                    .report = std::move(options.report)}) {}

}  // namespace booster
