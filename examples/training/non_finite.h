// Detects losses that are not finite. For one thread.
#pragma once

#include <booster/booster.h>

#include <string>

namespace example {

class LossWatch {
 public:
  // Adds the loss of this rank in a step.
  void see(int64_t step, double loss);
  // Returns true if this rank's latest loss is not finite.
  bool found() const;
  // Returns true in the first of several consecutive steps in which the ranks agreed that one found
  // a non-finite loss.
  bool is_news(bool found);
  // Returns "step 12: the loss of rank 1 is nan; the last finite one was 4.61, in step 11" on all
  // ranks, about the first rank that found one. Collective.
  std::string describe(const booster::World& world) const;

 private:
  int64_t step_ = 0, finite_step_ = 0;  // latest step; latest step with a finite loss
  double loss_ = 0, finite_loss_ = 0;
  bool told_ = false;
};

}  // namespace example
