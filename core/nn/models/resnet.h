// The modules of models::resnet20 (core/nn/models.h).
#pragma once

#include "core/nn/models.h"

#include <string>
#include <vector>

namespace booster::models {

class ResidualBlock : public Module {
 public:
  ResidualBlock(int64_t in, int64_t out, int64_t stride);
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  BatchNorm2d& bn2;

 private:
  Tensor forward(const Tensor& x) override;
  // Returns every stride-th position of x, with zero channels appended for those that x lacks.
  Tensor shortcut(const Tensor& x) const;
  int64_t stride_, added_channels_;
};

class ResNet20 : public Module {
 public:
  explicit ResNet20(const ResNetOptions& options = {});
  explicit ResNet20(NoOptions) : ResNet20() {}
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Sequential& layer1;
  Sequential& layer2;
  Sequential& layer3;
  Linear& fc;
  // "stem", each block ("layer1.0", ...) and "fc".
  int link_count() const override { return static_cast<int>(blocks_.size()) + 2; }
  Link link(int i) const override;
  Tensor example_input(int64_t rows) const override {
    return zeros({rows, conv1.weight.size(1), 32, 32});
  }
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return forward_links(x, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
  struct Block {
    std::string name;
    Module* module;
  };
  std::vector<Block> blocks_;
};

}  // namespace booster::models
