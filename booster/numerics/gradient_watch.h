// Watches which parameters have gradients and when they change, to find mistakes in the training
// loop that change a step's meaning without an error. For one thread.
#pragma once

#include "booster/numerics/findings.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "mixed_precision/interface/precision.h"

#include <map>
#include <string>
#include <unordered_set>

namespace booster::numerics {

class GradientWatch {
 public:
  GradientWatch(const Model& model, const Optimizer& optimizer);
  // Includes groups that joined the optimizer since the last call.
  void follow_groups();

  // Handles a gradient that arrives at a leaf. `name` is "" if the leaf was in neither model nor
  // optimizer at the start. Reports pitfalls 38 (no optimizer owns the leaf) and 39 (made later).
  void leaf(const Tensor& leaf, const std::string& name, int64_t step, Findings& findings) const;
  // Records the gradients' versions. From now until the next backward or unscaling, only the
  // strategy may change gradients.
  void note_versions();
  // Reports pitfalls 14 and 29 (gradients changed since), 18 (parameters without gradients) and 20
  // (learning rate changed after a skipped step).
  void before_step(const Verdict& verdict, int64_t step, Findings& findings);
  void after_step(bool skipped);

 private:
  void look_for_changes(const Verdict& verdict, int64_t step, Findings& findings) const;
  void look_for_absent(int64_t step, Findings& findings) const;

  Model model_;
  Optimizer optimizer_;
  std::unordered_set<const TensorBody*> owned_;
  std::map<std::string, uint32_t> versions_;  // of gradients
  double lr_of_skipped_ = -1;                 // negative: the last step was not skipped
};

}  // namespace booster::numerics
