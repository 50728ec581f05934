// Evaluates the model on the validation images. Each image counts once, on any number of ranks.
#pragma once

#include "examples/training/time_account.h"

#include <booster/booster.h>

#include <optional>

namespace example {

class Validation {
 public:
  // `options` are the loader's options as for training; order and shares are set here. With
  // `classes` it also computes the confusion matrix.
  Validation(std::shared_ptr<const booster::Dataset> images, booster::DataLoaderOptions options,
             const booster::World& world, const booster::Plugin& plugin, int64_t classes = 0);

  struct Result {
    int64_t images = 0;
    double top1 = 0, top5 = 0;  // share of images with the class ranked first; in the first five
    double loss = 0;            // mean over the images
    std::vector<double> confusion;                   // images by true and by predicted class
    std::vector<booster::report::WorstImage> worst;  // largest losses first
  };
  // Returns the same result on all ranks; nothing if a rank got a stop signal meanwhile.
  // Collective.
  std::optional<Result> run(const booster::BoostedModel& model, TimeAccount& time);

  // Starts loading, so that run() need not wait.
  void prepare() { loader_.prepare(); }
  std::vector<booster::BadImage> bad_images() const { return loader_.bad_images(); }

 private:
  class Tally;

  booster::World world_;
  booster::Group shares_;  // ranks that see different images
  int64_t classes_;
  bool gathers_;  // the model runs only on all ranks together
  booster::DataLoader loader_;
};

}  // namespace example
