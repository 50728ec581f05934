#include "core/nn/models/resnet.h"

#include "core/nn/functional.h"
#include "core/nn/module_traits.h"

#include <algorithm>

namespace booster::models {
namespace {

// Channels-last images make the layers 1.2 to 1.3 times as fast on a CPU.
Tensor in_convolutions_order(const Tensor& x) {
  return x.ndim() == 4 && x.device() == Device{} ? channels_last(x) : x;
}

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
  const Tensor kept = slice(slice(x, 2, 0, {}, stride_), 3, 0, {}, stride_);
  if (added_channels_ == 0) return kept;
  const Tensor zero = zeros({1, 1, 1, 1}, {kept.dtype(), kept.device()});
  return cat({kept, expand(zero, {x.size(0), added_channels_, kept.size(2), kept.size(3)})}, 1);
}

Tensor ResidualBlock::forward(const Tensor& x) {
  return bn2.with_relu(conv2(bn1.with_relu(conv1(x))), shortcut(x));
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
  const auto list = [this](const char* name, const Sequential& layer) {
    for (int64_t i = 0; i < layer.size(); ++i)
      blocks_.push_back({fmt::format("{}.{}", name, i), &layer[i]});
  };
  list("layer1", layer1);
  list("layer2", layer2);
  list("layer3", layer3);
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) init::kaiming_normal(conv->weight);
  });
}

ModuleTraits ResNet20::traits() const { return {.heads = {"fc"}}; }

Link ResNet20::link(int i) const {
  const int count = link_count();
  check(i >= 0 && i < count, "resnet20: link out of range; got {} of {}", i, count);
  if (i == 0) return link_of("stem", {&conv1, &bn1});
  if (i == count - 1) return link_of("fc", {&fc});
  const Block& block = blocks_[static_cast<size_t>(i - 1)];
  return link_of(block.name, {block.module});
}

Tensor ResNet20::forward_links(const Tensor& x, int first, int last) {
  const int classifier = link_count() - 1;
  Tensor y = first == 0 ? bn1.with_relu(conv1(in_convolutions_order(x))) : x;
  for (int i = std::max(first, 1); i < std::min(last, classifier); ++i)
    y = (*blocks_[static_cast<size_t>(i - 1)].module)(y);
  return last > classifier ? fc(flatten(adaptive_avg_pool2d(y, 1), 1)) : y;
}

Model resnet20(const ResNetOptions& options) {
  return std::make_shared<ResNet20>(options);
}

}  // namespace booster::models
