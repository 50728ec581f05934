// The images that a validation got most wrong, kept with small pictures in a file of the run.
#pragma once

#include "core/data/datasets/image_dataset.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace booster::report {

struct WorstImage {
  int64_t index = 0;  // in the data set
  double loss = 0;
  int64_t predicted = 0;   // class
  double probability = 0;  // that the model gave that class
};

// Writes {"step", "images": [{"file", "true", "predicted", "probability", "loss", "jpeg"}]}: of a
// JPEG file that is small the bytes as they are, of others a picture of at most 160 pixels a side,
// in base64; null for one that cannot be read. Names are terminal_text, since those of
// files need not be UTF-8. Error of kind failed if the file cannot be written.
void write_worst_images(const std::filesystem::path& file, int64_t step,
                        const std::vector<WorstImage>& worst, const ImageDataset& images);

}  // namespace booster::report
