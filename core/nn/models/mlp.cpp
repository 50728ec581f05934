#include "core/nn/models/mlp.h"

namespace booster::models {

void check_mlp_sizes(const std::vector<int64_t>& sizes) {
  check(sizes.size() >= 2, "mlp: want at least an input and an output size; got {} sizes",
        sizes.size());
}

Model mlp(const std::vector<int64_t>& sizes, const MlpOptions& options) {
  check_mlp_sizes(sizes);
  auto layers = std::make_shared<Sequential>();
  if (options.flatten) layers->append(Flatten());
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) layers->append(ReLU());
    layers->append(Linear(sizes[i], sizes[i + 1], {.bias = options.bias}));
  }
  return layers;
}

}  // namespace booster::models
