// Which classes a model confuses: the files of an evaluation.
#pragma once

#include "examples/vit_caltech101/inference/source.h"
#include "examples/vit_caltech101/validation.h"

#include <string>
#include <vector>

namespace example {

// Returns evaluation.json: the weights, the metrics, the images and correct predictions per class,
// and the confusion matrix, rows by true class.
std::string evaluation_record(const Validation::Result& result,
                              const std::vector<std::string>& classes, const Source& source);

// Returns the matrix as SVG; colours are shares of the row's images. `counts` is classes x classes,
// by true and predicted class.
std::string draw_confusion(const std::vector<double>& counts,
                           const std::vector<std::string>& classes);

}  // namespace example
