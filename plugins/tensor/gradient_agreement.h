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
  // All ranks of the mesh call it, with complete gradients. It checks the first steps and then a
  // step from time to time, since gradients that are 0 at first agree everywhere. On a difference
  // it throws on all ranks, with the parameter's name on the ranks that have it.
  void check_same(const Parameters& whole);

 private:
  // Returns the name of a parameter that differs; "" if all agree.
  std::string differing(const Parameters& whole) const;

  Group ranks_, world_;
  int64_t calls_ = 0;
};

}  // namespace booster
