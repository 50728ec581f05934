// Times a whole training step: forward, loss, backward and optimizer step through Booster::boost,
// on one batch that stays in memory.
#pragma once

#include "benchmarks/bound.h"
#include "benchmarks/report.h"
#include "booster/booster.h"

namespace booster::benchmarks {

// A value of --optimizer: a registered optimizer with its options, and the bytes that its step must
// read and write per f32 parameter.
struct OptimizerChoice {
  std::string text, rule;
  OptimizerOptions options;
  double bytes;
};
// Accepts "sgd" (weight decay, as in the ViT tutorial), "sgd_momentum" or "adamw"; throws for
// others.
const OptimizerChoice& optimizer_choice(const std::string& name);

// Accepts "cpu" or "cuda"; throws for others.
Device chosen_device(const std::string& name);

// Returns the dtype of matrix products under a strategy; the bound is measured in it.
DType product_dtype(const std::string& precision);

// Returns labels for a batch of synthetic images: all classes in turn.
Tensor class_labels(int64_t batch, int64_t classes);

inline constexpr const char* profile_meaning =
    "afterwards profile the same number of steps and print their times to standard error";

struct TrainingWork {
  std::string text;
  Model model;
  Criterion criterion;
  Tensor input, target;
  std::string precision, optimizer;
  bool profile = false;  // --profile
  double lr = 1e-2;
  double gflop = 0;                      // per step; 0 if not counted
  std::vector<MatmulShape> shapes = {};  // for the bound; empty for none
};

// Returns the common fields and precision, loss, images_per_s (batch / median step), peak_bytes
// (maximum tensor memory in a timed step) and system_allocations (during the timed steps).
Result measure_training(const Benchmark& benchmark, const TrainingWork& work);

}  // namespace booster::benchmarks
