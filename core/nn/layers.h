// Layers: modules of one function each. Parameter names, options and initial values are PyTorch's,
// so that PyTorch's state dicts load unchanged. Members hold the parameters; an absent bias is
// undefined.
#pragma once

#include "core/nn/functional.h"
#include "core/nn/module.h"
#include "core/nn/normalization_layers.h"

#include <initializer_list>

namespace booster {

// Layers without parameters: a function with its options. `training` is the module's mode.
struct FunctionLayer : Module {
  using Function = std::function<Tensor(const Tensor& x, bool training)>;
  // `elementwise`: each result depends on one element of x only.
  FunctionLayer(const char* kind, Function function, std::string options = "",
                bool elementwise = false);
  std::string options() const override { return text_; }
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return function_(x, training()); }
  Function function_;
  std::string text_;
  bool elementwise_;
};

struct LinearOptions {
  bool bias = true;
  TensorOptions tensor = {};
};
// (..., in) to (..., out)
struct Linear : Module {
  using Options = LinearOptions;
  Linear(int64_t in, int64_t out, LinearOptions options = {});
  std::string options() const override;
  const Tensor weight, bias;

 private:
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
};

// Base of the convolutions. Weights have the shapes of conv2d, conv_transpose2d and so on.
struct Convolution : Module {
  std::string options() const override { return text_; }
  const Tensor weight, bias;

 protected:
  using Function = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;
  Convolution(const char* kind, Tensor weight, int64_t in, int64_t out, int64_t groups, bool bias,
              std::string window, Function function);

 private:
  Tensor forward(const Tensor& x) override { return function_(x, weight, bias); }
  std::string text_;
  Function function_;
};
// (n, in, length) to (n, out, length')
struct Conv1d : Convolution {
  using Options = Conv1dOptions;
  Conv1d(int64_t in, int64_t out, int64_t kernel, Conv1dOptions options = {}, bool bias = true);
};
struct ConvTranspose1d : Convolution {
  using Options = Conv1dOptions;
  ConvTranspose1d(int64_t in, int64_t out, int64_t kernel, Conv1dOptions options = {},
                  int64_t output_padding = 0, bool bias = true);
};
// (n, in, h, w) to (n, out, h', w')
struct Conv2dOptions {
  Size2d stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
struct Conv2d : Convolution {
  using Options = Conv2dOptions;
  Conv2d(int64_t in, int64_t out, Size2d kernel, Conv2dOptions options = {});
};
struct ConvTranspose2dOptions {
  Size2d stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
struct ConvTranspose2d : Convolution {
  using Options = ConvTranspose2dOptions;
  ConvTranspose2d(int64_t in, int64_t out, Size2d kernel, ConvTranspose2dOptions options = {});
};
// (n, in, d, h, w) to (n, out, d', h', w')
struct Conv3d : Convolution {
  using Options = Conv3dOptions;
  Conv3d(int64_t in, int64_t out, Size3d kernel, Conv3dOptions options = {}, bool bias = true);
};
struct ConvTranspose3d : Convolution {
  using Options = Conv3dOptions;
  ConvTranspose3d(int64_t in, int64_t out, Size3d kernel, Conv3dOptions options = {},
                  Size3d output_padding = 0, bool bias = true);
};

// x where x > 0, else weight x, for one weight or one per channel of (n, channels, ...).
struct PReLU : Module {
  explicit PReLU(int64_t channels = 1, double value = 0.25);
  const Tensor weight;

 private:
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
};

// Indices of any shape to (..., features); initial values are normal, the padding row 0.
struct Embedding : Module {
  Embedding(int64_t entries, int64_t features, std::optional<int64_t> padding_index = {});
  std::string options() const override;
  const Tensor weight;

 private:
  Tensor forward(const Tensor& index) override { return embedding(index, weight, padding_index_); }
  std::optional<int64_t> padding_index_;
};

// Drops elements with probability p in training. Below: channels (Dropout2d), samples (DropPath).
struct Dropout : Module {
  explicit Dropout(double p = 0.5);
  std::string options() const override;
  const double p;
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return dropout(x, p, training()); }
};
struct GELU : Module {
  explicit GELU(GeluForm form = GeluForm::erf) : Module("GELU"), form(form) {}
  std::string options() const override;
  const GeluForm form;
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return gelu(x, form); }
};

struct UpsampleOptions {
  std::optional<Size2d> size = {};
  std::optional<Scale2d> scale_factor = {};
  std::string mode = "nearest";
  bool align_corners = false;
};
// Resizes images to a size or by a scale: see interpolate.
struct Upsample : FunctionLayer {
  using Options = UpsampleOptions;
  explicit Upsample(const UpsampleOptions& options);
  explicit Upsample(double scale_factor) : Upsample({.scale_factor = scale_factor}) {}
};

// --- the other layers of PyTorch that have no parameters. See the functions for arguments.
// clang-format off
struct ReLU : FunctionLayer { ReLU(); };
struct LeakyReLU : FunctionLayer { explicit LeakyReLU(double slope = 0.01); };
struct ELU : FunctionLayer { explicit ELU(double alpha = 1); };
struct SiLU : FunctionLayer { SiLU(); };
struct Tanh : FunctionLayer { Tanh(); };
struct Sigmoid : FunctionLayer { Sigmoid(); };
struct Softmax : FunctionLayer { explicit Softmax(int64_t dim = -1); };
struct Identity : FunctionLayer { Identity(); };
struct Flatten : FunctionLayer { explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1); };
struct PixelShuffle : FunctionLayer { explicit PixelShuffle(int64_t factor); };
struct MaxPool2d : FunctionLayer {
  using Options = PoolOptions;
  explicit MaxPool2d(Size2d kernel, PoolOptions options = {});
};
struct AvgPool2d : FunctionLayer {
  using Options = PoolOptions;
  explicit AvgPool2d(Size2d kernel, PoolOptions options = {});
};
struct AdaptiveAvgPool2d : FunctionLayer { explicit AdaptiveAvgPool2d(Size2d size); };
struct Hardsigmoid : FunctionLayer { Hardsigmoid(); };
struct Hardswish : FunctionLayer { Hardswish(); };
struct LogSigmoid : FunctionLayer { LogSigmoid(); };
struct Mish : FunctionLayer { Mish(); };
struct ReLU6 : FunctionLayer { ReLU6(); };
struct SELU : FunctionLayer { SELU(); };
struct Softsign : FunctionLayer { Softsign(); };
struct Tanhshrink : FunctionLayer { Tanhshrink(); };
struct CELU : FunctionLayer { explicit CELU(double alpha = 1); };
struct Threshold : FunctionLayer { Threshold(double limit, double value); };
struct GLU : FunctionLayer { explicit GLU(int64_t dim = -1); };
struct LogSoftmax : FunctionLayer { explicit LogSoftmax(int64_t dim = -1); };
struct Softmin : FunctionLayer { explicit Softmin(int64_t dim = -1); };
struct Hardshrink : FunctionLayer { explicit Hardshrink(double lambda = 0.5); };
struct Softshrink : FunctionLayer { explicit Softshrink(double lambda = 0.5); };
struct Hardtanh : FunctionLayer { explicit Hardtanh(double low = -1, double high = 1); };
struct RReLU : FunctionLayer { explicit RReLU(double low = 1.0 / 8, double high = 1.0 / 3); };
struct Softplus : FunctionLayer { explicit Softplus(double beta = 1, double limit = 20); };
struct Dropout2d : FunctionLayer { explicit Dropout2d(double p = 0.5); };
struct DropPath : FunctionLayer { explicit DropPath(double p = 0); };
struct AlphaDropout : FunctionLayer { explicit AlphaDropout(double p = 0.5); };
struct FeatureAlphaDropout : FunctionLayer { explicit FeatureAlphaDropout(double p = 0.5); };
struct ChannelShuffle : FunctionLayer { explicit ChannelShuffle(int64_t groups); };
struct PixelUnshuffle : FunctionLayer { explicit PixelUnshuffle(int64_t factor); };
struct Unflatten : FunctionLayer { Unflatten(int64_t dim, const Shape& sizes); };
struct Pad : FunctionLayer {
  explicit Pad(const std::vector<int64_t>& sizes, double value = 0);
  Pad(const std::vector<int64_t>& sizes, const std::string& mode);
};
struct Unfold : FunctionLayer {
  using Options = WindowOptions;
  explicit Unfold(Size2d kernel, WindowOptions options = {});
};
struct Fold : FunctionLayer {
  using Options = WindowOptions;
  Fold(Size2d size, Size2d kernel, WindowOptions options = {});
};
struct MaxPool1d : FunctionLayer {
  using Options = Pool1dOptions;
  explicit MaxPool1d(int64_t kernel, Pool1dOptions options = {});
};
struct AvgPool1d : FunctionLayer {
  using Options = Pool1dOptions;
  explicit AvgPool1d(int64_t kernel, Pool1dOptions options = {});
};
struct MaxPool3d : FunctionLayer {
  using Options = Pool3dOptions;
  explicit MaxPool3d(Size3d kernel, Pool3dOptions options = {});
};
struct AvgPool3d : FunctionLayer {
  using Options = Pool3dOptions;
  explicit AvgPool3d(Size3d kernel, Pool3dOptions options = {});
};
struct LPPool2d : FunctionLayer {
  using Options = PoolOptions;
  LPPool2d(double p, Size2d kernel, PoolOptions options = {});
};
struct LPPool3d : FunctionLayer {
  using Options = Pool3dOptions;
  LPPool3d(double p, Size3d kernel, Pool3dOptions options = {});
};
struct AdaptiveAvgPool1d : FunctionLayer { explicit AdaptiveAvgPool1d(int64_t size); };
struct AdaptiveAvgPool3d : FunctionLayer { explicit AdaptiveAvgPool3d(Size3d size); };
struct AdaptiveMaxPool1d : FunctionLayer { explicit AdaptiveMaxPool1d(int64_t size); };
struct AdaptiveMaxPool2d : FunctionLayer { explicit AdaptiveMaxPool2d(Size2d size); };
struct AdaptiveMaxPool3d : FunctionLayer { explicit AdaptiveMaxPool3d(Size3d size); };
struct LocalResponseNorm : FunctionLayer {
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);
};
// clang-format on

// A list of modules, named 0, 1, .... The parent module calls the elements; calling the list itself
// throws.
struct ModuleList : Module {
  ModuleList(std::initializer_list<Model> modules = {}) : ModuleList(std::vector<Model>(modules)) {}
  explicit ModuleList(const std::vector<Model>& modules);
  void append(const Model& module);
  int64_t size() const { return static_cast<int64_t>(children().size()); }
  // Returns a module; negative indices count from the end.
  Module& operator[](int64_t i) const;

 private:
  Tensor forward(const Tensor& x) override;
};

// Modules by name, which the parent module calls.
struct ModuleDict : Module {
  ModuleDict(std::initializer_list<std::pair<std::string, Model>> modules = {});
  // Throws if the name is taken, as `add` of a module does.
  void insert(const std::string& name, const Model& module);
  bool contains(const std::string& name) const;
  std::vector<std::string> names() const;  // in the order of insertion
  int64_t size() const { return static_cast<int64_t>(children().size()); }
  // Throws with the nearest name if there is none.
  Module& operator[](const std::string& name) const;

 private:
  Tensor forward(const Tensor& x) override;
};

// Runs modules in sequence, named 0, 1, .... Each gets all tensors of the previous one. Its links
// are its modules' links: "3", "4.0", "4.1".
struct Sequential : Module {
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
  Tensors forward_named(const Tensors& x) override {
    return forward_named_links(x, 0, link_count());
  }
  Tensors forward_named_links(const Tensors& x, int first, int last) override;
  template <class T>
  T in_sequence(const T& x, int first, int last) const;
};

}  // namespace booster
