// BatchAgreement: ranks that work on one batch together are given the same one.
//
// Each tells the others the form of its batch and a few of its numbers, in one small message. So
// ranks whose loaders were cut by rank instead of by place on the mesh, or drew other
// augmentations, get an error instead of gradients of nothing. Numbers that differ by rounding are
// the same: machines may prepare them with other instructions. For one thread.
#pragma once

#include "parallel/mesh.h"

#include <vector>

namespace booster {

class BatchAgreement {
 public:
  // Among the ranks of one copy of the model: along the axes pipeline, sequence and tensor.
  explicit BatchAgreement(const Mesh& mesh);
  // Error that names two ranks which differ, and in what. All ranks call it. Where the batch is on
  // a GPU only the first one is looked at: the host would wait for each.
  void check_same(const Tensor& input, const Tensor& target = {});

 private:
  Mesh mesh_;
  Group ranks_;
  bool has_looked_ = false;
};

}  // namespace booster
