// GradientAgreement: checks that ranks of a tensor group agree on gradients of whole parameters.
//
// They agree if all ranks compute with the same activations. A parameter that works on parts of the
// features, or on some tokens, gets a part of its gradient on each rank. The ranks would then
// silently train different models. For one thread.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/mesh.h"

namespace booster {

class GradientAgreement {
 public:
  explicit GradientAgreement(const Mesh& mesh)
      : ranks_(mesh.group("tensor")), world_(mesh.world()) {}
  // Checks complete gradients; all ranks of the mesh call it. It checks the first steps, and later
  // ones from time to time, since gradients that are 0 at first are equal everywhere. On a
  // difference it throws on all ranks; ranks that have the parameter name it.
  void check_same(const Parameters& whole);

 private:
  // Returns the name of a parameter that differs; "" if all agree.
  std::string differing(const Parameters& whole) const;

  Group ranks_, world_;
  int64_t calls_ = 0;
};

}  // namespace booster
