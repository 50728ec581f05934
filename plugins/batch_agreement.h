// BatchAgreement: checks that ranks that work on one batch together have the same batch.
//
// Each rank sends its peers the form of its batch and a few of its values, in one small message.
// Loaders that were sharded by rank instead of by place on the mesh, or that drew other
// augmentations, thus cause an error instead of meaningless gradients. Values that differ by
// rounding count as equal: machines may prepare them with other instructions. For one thread.
#pragma once

#include "parallel/mesh.h"

#include <vector>

namespace booster {

class BatchAgreement {
 public:
  // Compares the ranks of one copy of the model: along the axes pipeline, sequence and tensor.
  explicit BatchAgreement(const Mesh& mesh);
  // Throws an error that names two ranks which differ, and in what. All ranks call it. On a GPU it
  // checks only the first batch: the host would wait for each.
  void check_same(const Tensor& input, const Tensor& target = {});

 private:
  Mesh mesh_;
  Group ranks_;
  bool has_looked_ = false;
};

}  // namespace booster
