// Which classes a model takes for which: the files of an evaluation.
#pragma once

#include "examples/vit_caltech101/inference/source.h"
#include "examples/vit_caltech101/validation.h"

#include <string>
#include <vector>

namespace example {

// evaluation.json: the weights, the result's numbers, images and right ones of each class, and the
// confusion matrix, rows by true class.
std::string evaluation_record(const Validation::Result& result,
                              const std::vector<std::string>& classes, const Source& source);

// The matrix as SVG; a row's colours are shares of its images. `counts` are classes x classes, by
// true class and predicted one.
std::string draw_confusion(const std::vector<double>& counts,
                           const std::vector<std::string>& classes);

}  // namespace example
