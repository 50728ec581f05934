// Tracks the best validation so far, and decides when to stop waiting for a better one. All ranks
// see the same results, so they decide alike. Saved with the training.
#pragma once

#include <booster/booster.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace example {

class BestValidation {
 public:
  // `metric`: "loss" is minimised, any other metric is maximised. stops() becomes true after
  // `patience` validations in a row of which none improved by more than min_delta; 0: never.
  BestValidation(std::string metric, int64_t patience, double min_delta);

  // Adds a validation; returns true if it is the best. A non-finite value never is.
  bool see(int64_t step, double value);
  bool stops() const { return patience_ > 0 && waited_ >= patience_; }
  // Returns "top1 0.9321 in step 400"; "" before the first validation.
  std::string told() const;

  nlohmann::json state() const;
  // Loads a saved state; ignores one saved for another metric. Throws an Error of kind data if it
  // is invalid.
  void load(const booster::StateReader& state);

 private:
  bool is_better(double value, double than, double by) const;

  std::string metric_;
  int64_t patience_;
  double min_delta_;
  int64_t best_step_ = -1;
  double best_ = 0, awaited_ = 0;  // best value; value to exceed by min_delta
  int64_t waited_ = 0;             // validations since `awaited_` changed
};

}  // namespace example
