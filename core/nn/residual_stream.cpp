#include "core/nn/residual_stream.h"

namespace booster {

ResidualNorm normalized(LayerNorm& norm, const ResidualStream& stream) {
  if (norm.must_be_called()) {
    const Tensor sum = stream.sum();
    return {sum, norm(sum)};
  }
  const DType result = dtype_for_linear(stream.x);
  if (!stream.branch.defined())
    return {stream.x,
            layer_norm(stream.x, norm.normalized_shape, norm.weight, norm.bias, norm.eps, result)};
  return residual_layer_norm(stream.x, stream.branch, norm.normalized_shape, norm.weight, norm.bias,
                             norm.eps, result);
}

}  // namespace booster
