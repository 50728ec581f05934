// Datasets of image files with one folder per class, and their splits.
//
// Objects are small values that share their file list and cache; copies are cheap.
#pragma once

#include "core/data/dataset.h"
#include "core/data/transforms/transforms.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct ImageDatasetOptions {
  Compose transform = {};  // must end in a tensor
  // Keeps decoded images in memory, up to this many bytes, so that later epochs need not decode
  // them.
  size_t cache_bytes = 0;
  // GPU that receives a loader's batches. Images are also kept there, up to this many bytes, as
  // long as transforms only crop, resize, flip, normalise and erase them.
  Device device = {};
  size_t device_cache_bytes = 0;
  bool apply_orientation = false;  // rotate images according to EXIF
  // Order of the labels. Throws for a folder that is not listed; a listed class need not have a
  // folder (a validation set with the classes of its training set). Empty: the folder names,
  // sorted.
  std::vector<std::string> classes = {};
  // Receives a line if the listing leaves files out: how many and why, with an example for each
  // reason. Empty: the line goes to stderr.
  std::function<void(const std::string& line)> report = {};
};

class ImageDataset : public Dataset {
 public:
  int64_t size() const override { return static_cast<int64_t>(items_.size()); }
  Sample load(int64_t index, RandomStream& random) const override;
  // Depends on class names and file names below the root, not on where the root lies.
  DatasetIdentity identity() const override;

  // Class names, sorted or in the order of the options; a label is an index into them.
  const std::vector<std::string>& classes() const;
  const std::string& path(int64_t index) const;
  int64_t label(int64_t index) const;
  // Returns the image's encoded file as it is. Throws errors of kind data as load() does.
  std::vector<uint8_t> file_bytes(int64_t index) const;

  // Returns the same files with another transform.
  ImageDataset with_transform(Compose transform) const;
  // Returns the samples at these indices, in this order.
  ImageDataset subset(const std::vector<int64_t>& indices) const;

  struct Split;
  // Puts round(fraction * images) of each class into validation: at least one, but not all. The
  // choice depends only on the seed and the class. Throws if fraction is not between 0 and 1.
  Split split(double validation_fraction, uint64_t seed = 0) const;

 protected:
  // Folders of `root` are the classes, except those in `excluded`; `what` is for messages. Throws
  // errors of kind data: no such folder, fewer than two classes (none, if `options` names the
  // classes), a class without images, a class that `options` does not name.
  ImageDataset(const char* what, const std::string& root, const std::vector<std::string>& excluded,
               ImageDatasetOptions options);

 private:
  struct Files;
  class KeptImage;
  LazyImage lazy_image(size_t file) const;
  std::shared_ptr<const Files> files_;
  std::vector<int64_t> items_;  // indices of files_
  Compose transform_;
};

struct ImageDataset::Split {
  ImageDataset train, validation;
};

// Returns the names of the folders in `root`, sorted, without hidden ones. `root` is a folder, an
// archive, or a folder in an archive; without it, returns none. Errors as for a data set on `root`.
std::vector<std::string> image_folders(const std::string& root);

// ROOT/CLASS/**/NAME.{jpg,jpeg,png,...}. ROOT is a folder, a tar or zip file, which is read in
// place, or a folder in one (images.zip/train). Links to files and folders are followed, except
// links to a folder that contains them. In an archive only links to files are followed, hard or
// symbolic. Hidden files, files without an image extension and other unread files are counted
// (ImageDatasetOptions::report). A file with an image extension that is not an image is a bad
// image. So is a link on disk with such a name that leads nowhere or to itself.
class ImageFolder : public ImageDataset {
 public:
  explicit ImageFolder(const std::string& root, ImageDatasetOptions options = {});
};

struct Caltech101Options {
  Compose transform = {};
  size_t cache_bytes = 0;
  Device device = {};
  size_t device_cache_bytes = 0;
  bool apply_orientation = false;
  std::function<void(const std::string& line)> report = {};  // as in ImageDatasetOptions
  bool background = false;                                   // include the class BACKGROUND_Google
};

// ROOT/101_ObjectCategories/CLASS/image_0001.jpg, or the same in ROOT/caltech101.
class Caltech101 : public ImageDataset {
 public:
  explicit Caltech101(const std::string& root, Caltech101Options options = {});
};

}  // namespace booster
