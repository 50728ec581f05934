// Datasets of image files with one folder per class, and their splits.
//
// Objects are small values that share their list of files and their cache; copies are cheap.
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
  // Decoded images are kept in memory up to this many bytes, so that later epochs need not decode.
  size_t cache_bytes = 0;
  // For loaders whose batches go to that GPU: there they are kept, too, up to this many bytes, as
  // long as transforms only crop, resize, flip, normalise and erase them.
  Device device = {};
  size_t device_cache_bytes = 0;
  bool apply_orientation = false;  // rotate images according to EXIF
  // The order of the labels; error if a folder is none of these, and they may lack folders of their
  // own (a validation set by the classes of its training set). Empty: the folders' names, sorted.
  std::vector<std::string> classes = {};
  // Gets a line if the listing leaves something out: how many files and why, with an example of
  // each. Empty: the line goes to stderr.
  std::function<void(const std::string& line)> report = {};
};

class ImageDataset : public Dataset {
 public:
  int64_t size() const override { return static_cast<int64_t>(items_.size()); }
  Sample load(int64_t index, RandomStream& random) const override;
  // By the names of the classes and the files below the root, which may lie elsewhere.
  DatasetIdentity identity() const override;

  // Names of the classes, sorted; a label is an index into them.
  const std::vector<std::string>& classes() const;
  const std::string& path(int64_t index) const;
  int64_t label(int64_t index) const;
  // The image's file as it is, encoded. Error of kind data as in load().
  std::vector<uint8_t> file_bytes(int64_t index) const;

  // The same files with another transform.
  ImageDataset with_transform(Compose transform) const;
  // The samples at these indices, in this order.
  ImageDataset subset(const std::vector<int64_t>& indices) const;

  struct Split;
  // round(fraction * images) of each class, at least one and not all, go to validation. The choice
  // depends only on the seed and the class. Error if fraction is not between 0 and 1.
  Split split(double validation_fraction, uint64_t seed = 0) const;

 protected:
  // Folders of `root` are the classes, except those in `excluded`; `what` is for messages. Errors
  // of kind data: no such folder, fewer than two classes, a class without images, one that
  // `options` does not name.
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

// Names of the folders in `root`, which is a folder, an archive, or a folder in an archive; sorted,
// without hidden ones. None if there is no such root; errors as those of a data set on it.
std::vector<std::string> image_folders(const std::string& root);

// ROOT/CLASS/**/NAME.{jpg,jpeg,png,...}. ROOT is a folder, or a tar or zip file, which is read in
// place, or a folder in one (images.zip/train). Links to files and folders are followed, but for
// those to a folder that they lie in; in an archive those to files alone, hard or symbolic. Hidden
// files, files without an image extension and all else that is not read are counted
// (ImageDatasetOptions::report). One with an image extension that is not an image, or is a link on
// the disk that leads nowhere or to itself, is a bad image.
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
