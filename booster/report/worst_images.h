// The images that a validation got most wrong, saved with small pictures in a file of the run.
#pragma once

#include "core/data/datasets/datasets.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace booster::report {

struct WorstImage {
  int64_t index = 0;  // in the data set
  double loss = 0;
  int64_t predicted = 0;   // class
  double probability = 0;  // the model's probability of that class
};

// Writes {"step", "images": [{"file", "true", "predicted", "probability", "loss", "jpeg"}]}. "jpeg"
// is in base64: the bytes of a small JPEG file as they are, else a picture of at most 160 pixels a
// side; null for an unreadable image. Names are terminal_text, since file names need not be UTF-8.
// Throws an Error of kind failed if the file cannot be written.
void write_worst_images(const std::filesystem::path& file, int64_t step,
                        const std::vector<WorstImage>& worst, const ImageDataset& images);

}  // namespace booster::report
