// Layers: modules of one function each. Parameter names, options and initial values are PyTorch's,
// so that PyTorch's state dicts load unchanged. Members hold the parameters; an absent bias is
// undefined.
#pragma once

#include "core/nn/functional.h"
#include "core/nn/module.h"
#include "core/nn/normalization_layers.h"

#include <initializer_list>

namespace booster {

struct LinearOptions {
  bool bias = true;
  TensorOptions tensor = {};
};
// (..., in) to (..., out)
class Linear : public Module {
 public:
  using Options = LinearOptions;
  Linear(int64_t in, int64_t out, LinearOptions options = {});
  std::string options() const override;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
};

struct Conv2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
// (n, in, h, w) to (n, out, h', w')
class Conv2d : public Module {
 public:
  using Options = Conv2dOptions;
  Conv2d(int64_t in, int64_t out, Size2d kernel, Conv2dOptions options = {});
  std::string options() const override;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override;
  Conv2dOptions options_;
};

struct ConvTranspose2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d output_padding = 0;
  Size2d dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
// (n, in, h, w) to (n, out, h', w'); weight (in, out / groups, kh, kw)
class ConvTranspose2d : public Module {
 public:
  using Options = ConvTranspose2dOptions;
  ConvTranspose2d(int64_t in, int64_t out, Size2d kernel, ConvTranspose2dOptions options = {});
  std::string options() const override;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override;
  ConvTranspose2dOptions options_;
};

// (n, in, length) to (n, out, length')
class Conv1d : public Module {
 public:
  using Options = Conv1dOptions;
  Conv1d(int64_t in, int64_t out, int64_t kernel, Conv1dOptions options = {}, bool bias = true);
  std::string options() const override;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override { return conv1d(x, weight, bias, options_); }
  Conv1dOptions options_;
};

// Indices of any shape to (..., features); initial values are normal, the padding row 0.
class Embedding : public Module {
 public:
  Embedding(int64_t entries, int64_t features, std::optional<int64_t> padding_index = {});
  std::string options() const override;
  const Tensor weight;

 private:
  Tensor forward(const Tensor& index) override { return embedding(index, weight, padding_index_); }
  std::optional<int64_t> padding_index_;
};

// Drops elements (Dropout), channels (Dropout2d) or samples (DropPath) with probability p in
// training.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  std::string options() const override;
  const double p;
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return dropout(x, p, training()); }
};
class Dropout2d : public Module {
 public:
  explicit Dropout2d(double p = 0.5);
  std::string options() const override;
  const double p;

 private:
  Tensor forward(const Tensor& x) override { return dropout2d(x, p, training()); }
};
class DropPath : public Module {
 public:
  explicit DropPath(double p = 0);
  std::string options() const override;
  const double p;

 private:
  Tensor forward(const Tensor& x) override { return drop_path(x, p, training()); }
};

// --- activations
class ReLU : public Module {
 public:
  ReLU() : Module("ReLU") {}
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return relu(x); }
};
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01) : Module("LeakyReLU"), slope(slope) {}
  std::string options() const override;
  const double slope;

 private:
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope); }
};
class ELU : public Module {
 public:
  explicit ELU(double alpha = 1) : Module("ELU"), alpha(alpha) {}
  std::string options() const override;
  const double alpha;

 private:
  Tensor forward(const Tensor& x) override { return elu(x, alpha); }
};
class SiLU : public Module {
 public:
  SiLU() : Module("SiLU") {}
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return silu(x); }
};
class Tanh : public Module {
 public:
  Tanh() : Module("Tanh") {}
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};
class Sigmoid : public Module {
 public:
  Sigmoid() : Module("Sigmoid") {}
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};
class GELU : public Module {
 public:
  explicit GELU(GeluForm form = GeluForm::erf) : Module("GELU"), form(form) {}
  std::string options() const override;
  const GeluForm form;
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return gelu(x, form); }
};
class Softmax : public Module {
 public:
  explicit Softmax(int64_t dim = -1) : Module("Softmax"), dim(dim) {}
  std::string options() const override;
  const int64_t dim;

 private:
  Tensor forward(const Tensor& x) override { return softmax(x, dim); }
};

// --- shapes and pooling
class Identity : public Module {
 public:
  Identity() : Module("Identity") {}
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return x; }
};
class Flatten : public Module {
 public:
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1)
      : Module("Flatten"), start_dim_(start_dim), end_dim_(end_dim) {}
  std::string options() const override;

 private:
  Tensor forward(const Tensor& x) override { return flatten(x, start_dim_, end_dim_); }
  int64_t start_dim_, end_dim_;
};
class PixelShuffle : public Module {
 public:
  explicit PixelShuffle(int64_t factor) : Module("PixelShuffle"), factor(factor) {}
  std::string options() const override;
  const int64_t factor;

 private:
  Tensor forward(const Tensor& x) override { return pixel_shuffle(x, factor); }
};
struct UpsampleOptions {
  std::optional<Size2d> size = {};
  std::optional<Scale2d> scale_factor = {};
  std::string mode = "nearest";
  bool align_corners = false;
};
// Resizes images to a size or by a scale: see interpolate.
class Upsample : public Module {
 public:
  using Options = UpsampleOptions;
  explicit Upsample(UpsampleOptions options);
  explicit Upsample(double scale_factor) : Upsample({.scale_factor = scale_factor}) {}
  std::string options() const override;

 private:
  Tensor forward(const Tensor& x) override;
  UpsampleOptions options_;
};
class MaxPool2d : public Module {
 public:
  using Options = PoolOptions;
  explicit MaxPool2d(Size2d kernel, PoolOptions options = {})
      : Module("MaxPool2d"), kernel_(kernel), options_(options) {}
  std::string options() const override;

 private:
  Tensor forward(const Tensor& x) override { return max_pool2d(x, kernel_, options_); }
  Size2d kernel_;
  PoolOptions options_;
};
class AvgPool2d : public Module {
 public:
  using Options = PoolOptions;
  explicit AvgPool2d(Size2d kernel, PoolOptions options = {})
      : Module("AvgPool2d"), kernel_(kernel), options_(options) {}
  std::string options() const override;

 private:
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, kernel_, options_); }
  Size2d kernel_;
  PoolOptions options_;
};
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Size2d size) : Module("AdaptiveAvgPool2d"), size_(size) {}
  std::string options() const override;

 private:
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, size_); }
  Size2d size_;
};

// A list of modules, named 0, 1, .... The parent module calls the elements; calling the list itself
// throws.
class ModuleList : public Module {
 public:
  ModuleList(std::initializer_list<Model> modules = {}) : ModuleList(std::vector<Model>(modules)) {}
  explicit ModuleList(const std::vector<Model>& modules);
  void append(const Model& module);
  int64_t size() const { return static_cast<int64_t>(children().size()); }
  // Returns a module; negative indices count from the end.
  Module& operator[](int64_t i) const;

 private:
  Tensor forward(const Tensor& x) override;
};

// Runs modules in sequence, named 0, 1, .... Its links are its modules' links: "3", "4.0", "4.1".
class Sequential : public Module {
 public:
  Sequential(std::initializer_list<Model> modules = {}) : Sequential(std::vector<Model>(modules)) {}
  explicit Sequential(const std::vector<Model>& modules);
  void append(const Model& module);
  int64_t size() const { return static_cast<int64_t>(children().size()); }
  Module& operator[](int64_t i) const;
  int link_count() const override;
  Link link(int i) const override;
  // Returns a tensor plan if the modules are a chain: linear layers in pairs, with elementwise
  // functions between.
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return forward_links(x, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
};

}  // namespace booster
