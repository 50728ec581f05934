// BatchAgreement: checks that ranks that share a batch have the same one.
//
// Each rank sends its peers the form of its batch and a few of its values, in one small message. A
// second message covers the inputs and targets after the first, if there are any.
// Loaders sharded by rank instead of by place on the mesh, and loaders with different
// augmentations, thus cause an error instead of meaningless gradients. Values that differ by
// rounding count as equal, because machines may use different instructions. For one thread.
#pragma once

#include "core/tensor/tensors.h"
#include "parallel/mesh.h"

#include <string>
#include <vector>

namespace booster {

class BatchAgreement {
 public:
  // Compares the ranks of one copy of the model: along the axes pipeline, sequence and tensor.
  explicit BatchAgreement(const Mesh& mesh);
  // Throws an error that names two ranks and their difference. All ranks call it. On a GPU it
  // checks only the first batch: the host would wait for each.
  void check_same(const Tensors& input, const Tensors& target = {});

 private:
  using Marks = std::vector<double>;
  // Sends the marks, of equal number on all ranks, and throws if they differ. `names` says whose
  // they are.
  void compare(Marks own, const std::vector<std::string>& names) const;

  Mesh mesh_;
  Group ranks_;
  bool has_looked_ = false;
};

}  // namespace booster
