// Which validation was the best so far, and whether it is time to stop waiting for a better one.
// All ranks see the same results, so they decide alike. Saved with the training.
#pragma once

#include <booster/booster.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace example {

class BestValidation {
 public:
  // `metric`: "loss", of which less is better, or another, of which more is. It stops behind
  // `patience` validations in a row none of which was better by more than min_delta; 0: never.
  BestValidation(std::string metric, int64_t patience, double min_delta);

  // Of one validation; true if it is the best. One that is not finite never is.
  bool see(int64_t step, double value);
  bool stops() const { return patience_ > 0 && waited_ >= patience_; }
  // "top1 0.9321 in step 400"; "" before the first.
  std::string told() const;

  nlohmann::json state() const;
  // What was saved under another metric is forgotten. Error of kind data if it is no such state.
  void load(const booster::StateReader& state);

 private:
  bool is_better(double value, double than, double by) const;

  std::string metric_;
  int64_t patience_;
  double min_delta_;
  int64_t best_step_ = -1;
  double best_ = 0, awaited_ = 0;  // to be surpassed: by anything; by more than min_delta
  int64_t waited_ = 0;             // validations since that
};

}  // namespace example
