#include "core/nn/models.h"

namespace booster::models {
namespace {

class Mlp : public Sequential {
 public:
  Mlp(const std::vector<int64_t>& sizes, const MlpOptions& options) : features_(sizes.front()) {
    if (options.flatten) append(Flatten());
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      if (i > 0) append(ReLU());
      append(Linear(sizes[i], sizes[i + 1], {.bias = options.bias}));
    }
  }
  Tensor example_input(int64_t rows) const override { return zeros({rows, features_}); }

 private:
  int64_t features_;
};

}  // namespace

void check_mlp_sizes(const std::vector<int64_t>& sizes) {
  check(sizes.size() >= 2, "mlp: want at least an input and an output size; got {} sizes",
        sizes.size());
}

Model mlp(const std::vector<int64_t>& sizes, const MlpOptions& options) {
  check_mlp_sizes(sizes);
  return std::make_shared<Mlp>(sizes, options);
}

}  // namespace booster::models
