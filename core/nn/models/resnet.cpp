#include "core/nn/models/resnet.h"

#include "core/nn/init.h"

namespace booster::models {
namespace {

Conv2dOptions same_size(int64_t stride) { return {.stride = stride, .padding = 1, .bias = false}; }

}  // namespace

ResidualBlock::ResidualBlock(int64_t in, int64_t out, int64_t stride)
    : Module("ResidualBlock"),
      conv1(add<Conv2d>("conv1", in, out, 3, same_size(stride))),
      bn1(add<BatchNorm2d>("bn1", out)),
      conv2(add<Conv2d>("conv2", out, out, 3, same_size(1))),
      bn2(add<BatchNorm2d>("bn2", out)),
      stride_(stride),
      added_channels_(out - in) {}

Tensor ResidualBlock::shortcut(const Tensor& x) const {
  if (stride_ == 1 && added_channels_ == 0) return x;
  const Tensor kept = avg_pool2d(x, 1, {.stride = stride_});
  if (added_channels_ == 0) return kept;
  const Tensor blank = zeros({x.size(0), added_channels_, kept.size(2), kept.size(3)},
                             {kept.dtype(), kept.device()});
  return cat({kept, blank}, 1);
}

Tensor ResidualBlock::forward(const Tensor& x) {
  return relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x));
}

ResNet20::ResNet20(const ResNetOptions& options)
    : Module("ResNet20"),
      conv1(add<Conv2d>("conv1", options.in_chans, 16, 3, same_size(1))),
      bn1(add<BatchNorm2d>("bn1", 16)),
      layer1(add<Sequential>("layer1")),
      layer2(add<Sequential>("layer2")),
      layer3(add<Sequential>("layer3")),
      fc(add<Linear>("fc", 64, options.num_classes)) {
  const auto fill = [](Sequential& layer, int64_t in, int64_t out, int64_t stride) {
    layer.append(ResidualBlock(in, out, stride));
    for (int i = 1; i < 3; ++i) layer.append(ResidualBlock(out, out, 1));
  };
  fill(layer1, 16, 16, 1);
  fill(layer2, 16, 32, 2);
  fill(layer3, 32, 64, 2);
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) init::kaiming_normal(conv->weight);
  });
}

Tensor ResNet20::forward(const Tensor& x) {
  const Tensor features = layer3(layer2(layer1(relu(bn1(conv1(x))))));
  return fc(flatten(adaptive_avg_pool2d(features, 1), 1));
}

Model resnet20(const ResNetOptions& options) {
  return std::make_shared<ResNet20>(options);
}

}  // namespace booster::models
