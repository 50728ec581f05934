// The data sets: folders of images (ImageFolder, Caltech101), packed images (CIFAR10, MNIST),
// sequences of tokens (TokenDataset), and parts of any data set (Subset, random_split).
//
// All are immutable values that share their files and caches: copies are cheap, and any thread may
// load samples. Files that are missing, truncated or damaged are errors of kind data that name the
// file.
#pragma once

#include "core/data/dataset.h"
#include "core/data/transforms/transforms.h"

#include <span>
#include <cstdint>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace booster {

// --- Datasets of image files with one folder per class, and their splits.
//
// Objects are small values that share their file list and cache; copies are cheap.

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

// --- Data sets of many small images of one size, held in memory as bytes. Immutable values that
// share their images; copies are cheap.

struct PackedContents {
  std::string kind;  // "CIFAR-10"
  int width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels = {};  // image by image, rows of interleaved pixels
  std::vector<uint8_t> labels = {};
  std::vector<std::string> classes = {};
};

class PackedImages : public Dataset {
 public:
  // Throws an error of kind data, naming the kind, for a label outside the classes.
  PackedImages(PackedContents contents, Compose transform);
  int64_t size() const override;
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the labels in their order.
  DatasetIdentity identity() const override;

  const std::vector<std::string>& classes() const;
  int64_t label(int64_t index) const;
  // Returns the same images with another transform.
  PackedImages with_transform(Compose transform) const;

 private:
  std::shared_ptr<const PackedContents> contents_;
  Compose transform_;
};

// --- CIFAR-10: 60,000 colour images of 32 x 32 pixels in 10 classes, by Alex Krizhevsky.

struct Cifar10Options {
  bool train = true;  // the 50,000 training images; false: the 10,000 test images
  Compose transform = {};
};

// Reads the binary version (cifar-10-binary.tar.gz, unpacked): data_batch_1.bin to 5 and
// test_batch.bin in ROOT or ROOT/cifar-10-batches-bin. Throws an error of kind data if a file is
// missing or truncated.
class CIFAR10 : public PackedImages {
 public:
  explicit CIFAR10(const std::string& root, Cifar10Options options = {});
};

// --- MNIST: 70,000 grey images of handwritten digits, 28 x 28 pixels, by Yann LeCun and others;
// and data sets in the same format (Fashion-MNIST, KMNIST).

struct MnistOptions {
  bool train = true;  // the 60,000 training images; false: the 10,000 test images
  Compose transform = {};
  std::vector<std::string> classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
};

// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., each plain or with .gz, in
// ROOT, ROOT/raw or torchvision's folder, ROOT/MNIST/raw. Throws an error of kind data if a file is
// missing or does not match its header.
class MNIST : public PackedImages {
 public:
  explicit MNIST(const std::string& root, MnistOptions options = {});
};

// --- Windows of a long sequence of tokens, for language models.
//
//   TokenDataset train(read_tokens("train.bin", {.bytes = 2}), {.length = 1024});
//   // a batch: image (n, 1024) i64, the model's input; label (n, 1024) i64, the next tokens

struct TokenDatasetOptions {
  int64_t length = 1024;
  int64_t stride = 0;  // from one window's start to the next; 0: length, so that none overlap
};

// Sample i has tokens i * stride ... + length; its label is the tokens one place later. Tokens
// after the last whole window are dropped.
class TokenDataset : public Dataset {
 public:
  // `tokens` (n) are integers of any dtype on the CPU. Throws for other tensors, and for fewer than
  // length + 1 tokens.
  explicit TokenDataset(Tensor tokens, TokenDatasetOptions options = {});
  int64_t size() const override;
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the options and the first MiB of the tokens.
  DatasetIdentity identity() const override;

 private:
  Tensor tokens_;
  TokenDatasetOptions options_;
};

struct TokenFileOptions {
  int bytes = 2;  // per token in the file: 1, 2 or 4; little-endian, unsigned
};

// Returns the tokens of a file that holds nothing else, as numpy's tofile writes them: u8 or i32
// (n), or i64 for tokens of 4 bytes. Throws an error of kind data if the file cannot be read or
// ends within a token.
Tensor read_tokens(const std::string& path, TokenFileOptions options = {});

// --- A subset of a data set's samples, and random splits of data sets.

// The samples at these indices, in this order.
class Subset : public Dataset {
 public:
  // Throws for an index outside the data set.
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Sample load(int64_t index, RandomStream& random) const override;
  Sample load_in_batch(int64_t index, std::span<const int64_t> batch,
                       RandomStream& random) const override;
  // Given by the whole data set and the indices.
  DatasetIdentity identity() const override;
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int64_t> indices_;
};

// Splits a data set at random without replacement; every sample is in exactly one part. `lengths`
// are either sample counts that add up to all, or fractions that add up to 1. With fractions each
// part gets its share rounded down; the first parts get one more each until none are left, as in
// PyTorch. The draw depends only on the seed. Throws for lengths that are neither, or below 0.
std::vector<Subset> random_split(std::shared_ptr<const Dataset> dataset,
                                 const std::vector<double>& lengths, uint64_t seed = 0);
template <std::derived_from<Dataset> D>
std::vector<Subset> random_split(D dataset, const std::vector<double>& lengths, uint64_t seed = 0) {
  return random_split(std::make_shared<D>(std::move(dataset)), lengths, seed);
}

// --- files of tokens, read from disk as they are needed
//
//   auto book = std::make_shared<TokenFile>("book.bin");
//   TokenFilesDataset train({{book, 3}, {web, 1}}, {.length = 1024});   // three windows of book to
//                                                                       // one of web
struct TokenFormat {
  int bytes = 0;  // per token in files without a header: 2 (nanoGPT) or 4, little-endian, unsigned;
                  // 0: what `booster tokenize` noted in PATH.json, else 2
};

// A file of tokens, mapped into memory. Recognises the headers of llm.c, and Megatron's pair of
// .bin and .idx; anything else is tokens alone, as nanoGPT and `booster tokenize` write them.
// Immutable and thread-safe.
class TokenFile {
 public:
  // Throws an error of kind data if the file cannot be read, ends within a token or contradicts its
  // header.
  explicit TokenFile(const std::string& path, TokenFormat format = {});
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return count_; }  // tokens
  // Writes tokens start ... start + out.size() - 1. The caller stays within size().
  void read(int64_t start, std::span<int64_t> out) const;
  // The file's bytes without a header.
  std::span<const std::byte> bytes() const;

 private:
  void map();
  void find_tokens(TokenFormat format);
  bool read_llm_c_header();
  bool read_megatron_index();

  std::string path_;
  const std::byte* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  size_t offset_ = 0;  // of the first token, in bytes
  int width_ = 2;      // bytes of a token
  int64_t count_ = 0;
};

struct WeightedTokens {
  std::shared_ptr<const TokenFile> file;
  double weight = 1;  // its share of the samples, relative to the others'
};

struct TokenFilesOptions {
  int64_t length = 1024;
  int64_t stride = 0;  // from one window's start to the next; 0: length, so that none overlap
  int64_t samples =
      0;  // in an epoch; 0: until the first file, by its weight, has given all windows
  // The token that ends documents. The label of its place is -100, which losses ignore: what begins
  // the next document does not follow from this one.
  std::optional<int32_t> document_end = {};
};

// Sample i has `length` tokens of one file; its label is the tokens one place later. Files take
// turns so that after any number of samples each has given its share, to within one sample. A file
// that has given all of its windows begins again.
class TokenFilesDataset : public Dataset {
 public:
  // Throws for files shorter than length + 1 tokens and for weights that are not positive.
  TokenFilesDataset(std::vector<WeightedTokens> files, TokenFilesOptions options = {});
  int64_t size() const override { return samples_; }
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the options, weights, sizes and the first MiB of each file.
  DatasetIdentity identity() const override;

 private:
  struct Turn {
    uint32_t file;
    int64_t window;
  };
  int64_t windows_of(size_t file) const;
  int64_t samples_of_an_epoch() const;
  void take_turns();
  Turn turn_of(int64_t index) const;

  std::vector<WeightedTokens> files_;
  TokenFilesOptions options_;
  int64_t samples_ = 0;
  std::vector<Turn> turns_;  // of each sample, if there are several files
};

}  // namespace booster
