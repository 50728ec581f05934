// A small set of real JPEG files in Caltech101's layout, for users who have not downloaded it:
// eight classes of drawn patterns that a Vision Transformer learns from scratch in minutes.
#pragma once

#include <cstdint>
#include <string>

namespace booster {

struct SmallSetOptions {
  int images_per_class = 80;
  uint64_t seed = 42;
};

// Writes FOLDER/101_ObjectCategories/CLASS/image_0001.jpg ... unless it already exists. Sizes, file
// sizes and the share of grey images are about Caltech101's. The same options give the same files.
// Several processes may call it at once: the files appear atomically. Throws an Error of kind
// failed if the folder cannot be written.
void make_small_set(const std::string& folder, const SmallSetOptions& options = {});

}  // namespace booster
