// Looks for numbers that are not finite: in every loss, and in the weights before they are saved.
// One thread.
#pragma once

#include <booster/booster.h>

#include <string>

namespace example {

class LossWatch {
 public:
  // The loss of this rank in a step.
  void see(int64_t step, double loss);
  // The latest loss of this rank is not finite.
  bool found() const;
  // True in the first of several steps in a row for which the ranks agreed that one found it.
  bool is_news(bool found);
  // "step 12: the loss of rank 1 is nan; the last finite one was 4.61, in step 11", of the first
  // rank that found it, on all ranks. Collective.
  std::string describe(const booster::World& world) const;

 private:
  int64_t step_ = 0, finite_step_ = 0;  // the latest one; the latest with a finite loss
  double loss_ = 0, finite_loss_ = 0;
  bool told_ = false;
};

// All parameters and buffers of this rank are finite. Reads them once.
bool weights_are_finite(const booster::Model& model);

}  // namespace example
