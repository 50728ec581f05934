// Image files below a root: a folder, or an archive (tar, zip) that is read in place. A path in an
// archive continues the archive's path: "sets/flowers.zip/train/rose/1.jpg". Objects are immutable;
// thread-safe.
#pragma once

#include "core/data/archives/left_out.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace booster {

class ImageFiles {
 public:
  virtual ~ImageFiles() = default;
  // Returns the names of the root's folders, sorted, without hidden ones. `left_out` counts the
  // root's other entries.
  virtual std::vector<std::string> folders(LeftOut& left_out) const = 0;
  // Returns the full paths of the images below a folder of the root, sorted. An image has an image
  // extension and is neither hidden nor in a hidden folder. Links to folders are followed, except
  // links to a folder that contains them. `left_out` counts all other files.
  virtual std::vector<std::string> images(const std::string& folder, LeftOut& left_out) const = 0;
  // Returns the bytes of such a file. Errors as for read_image_file (images/image_file.h).
  virtual std::vector<uint8_t> read(const std::string& path) const = 0;
};

// Throws errors of kind data that begin with `what` for a folder that is missing or unreadable, and
// the errors of Archive. Any file is read as an archive, whatever its name.
std::shared_ptr<const ImageFiles> open_image_files(const char* what, const std::string& root);

}  // namespace booster
