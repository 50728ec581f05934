// GradientAgreement: what ranks of a tensor group hold whole must get the same gradient on all.
//
// It does where all of them compute with the same activations. A parameter that works on parts of
// the features, or on some tokens, gets a part of its gradient on each, and the ranks would train
// different models, silently. For one thread.
#pragma once

#include "core/tensor/named_tensor.h"
#include "parallel/mesh.h"

namespace booster {

class GradientAgreement {
 public:
  explicit GradientAgreement(const Mesh& mesh)
      : ranks_(mesh.group("tensor")), world_(mesh.world()) {}
  // All ranks of the mesh call it, with gradients that are complete. Looks in the first steps and
  // then now and again, since a gradient that is 0 at first is the same everywhere. Error on all
  // ranks, with the parameter's name on those that have it.
  void check_same(const Parameters& whole);

 private:
  // "": all are the same.
  std::string differing(const Parameters& whole) const;

  Group ranks_, world_;
  int64_t calls_ = 0;
};

}  // namespace booster
