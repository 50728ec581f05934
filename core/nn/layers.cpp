#include "core/nn/layers.h"

#include "core/nn/functional.h"
#include "core/nn/module_traits.h"

#include <algorithm>

namespace booster {
namespace {

std::string text_of(int64_t size) { return std::to_string(size); }
std::string text_of(Size2d size) { return fmt::format("({}, {})", size.height, size.width); }
std::string text_of(Size3d size) {
  return fmt::format("({}, {}, {})", size.depth, size.height, size.width);
}

void check_sizes(const char* kind, int64_t in, int64_t out) {
  check(in > 0 && out > 0, "{}: sizes must be positive; got {} in, {} out", kind, in, out);
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, LinearOptions options)
    : Module("Linear"),
      weight(add_parameter("weight", empty({out, in}, options.tensor), Role::linear_weight)),
      bias(add_parameter("bias", options.bias ? empty({out}, options.tensor) : Tensor())) {
  check_sizes("Linear", in, out);
  init::layer_default(weight, bias);
}
std::string Linear::options() const {
  return fmt::format("{}, {}, bias={}", weight.size(1), weight.size(0), bias.defined());
}

Convolution::Convolution(const char* kind, Tensor given, int64_t in, int64_t out, int64_t groups,
                         bool with_bias, std::string window, Function function)
    : Module(kind),
      weight(add_parameter("weight", std::move(given))),
      bias(add_parameter("bias", with_bias ? empty({out}) : Tensor())),
      text_(fmt::format("{}, {}, {}, bias={}", in, out, window, with_bias)),
      function_(std::move(function)) {
  check_sizes(kind, in, out);
  check(groups > 0 && in % groups == 0 && out % groups == 0,
        "{}: groups do not divide the channels; got {} groups for {} in, {} out", kind, groups, in,
        out);
  init::layer_default(weight, bias);
}

namespace {

// Returns a weight (first, second / groups, kernel). Convolution checks the sizes.
Tensor filter_of(int64_t first, int64_t second, int64_t groups, std::vector<int64_t> kernel) {
  kernel.insert(kernel.begin(), {first, second / std::max<int64_t>(groups, 1)});
  return empty(Shape(kernel));
}

template <class Size>
std::string kernel_text(const Size& kernel, const Size& stride, const Size& padding) {
  return fmt::format("kernel={}, stride={}, padding={}", text_of(kernel), text_of(stride),
                     text_of(padding));
}

}  // namespace

#define FUNCTION(...) \
  [=](const Tensor& x, const Tensor& weight, const Tensor& bias) { return __VA_ARGS__; }

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel, Conv1dOptions o, bool with_bias)
    : Convolution("Conv1d", filter_of(out, in, o.groups, {kernel}), in, out, o.groups, with_bias,
                  kernel_text(kernel, o.stride, o.padding), FUNCTION(conv1d(x, weight, bias, o))) {}

ConvTranspose1d::ConvTranspose1d(int64_t in, int64_t out, int64_t kernel, Conv1dOptions o,
                                 int64_t output_padding, bool with_bias)
    : Convolution("ConvTranspose1d", filter_of(in, out, o.groups, {kernel}), in, out, o.groups,
                  with_bias, kernel_text(kernel, o.stride, o.padding),
                  FUNCTION(conv_transpose1d(x, weight, bias, o, output_padding))) {}

Conv2d::Conv2d(int64_t in, int64_t out, Size2d kernel, Conv2dOptions o)
    : Convolution("Conv2d", filter_of(out, in, o.groups, {kernel.height, kernel.width}), in, out,
                  o.groups, o.bias, kernel_text(kernel, o.stride, o.padding),
                  FUNCTION(conv2d(x, weight, bias,
                                  {.stride = o.stride,
                                   .padding = o.padding,
                                   .dilation = o.dilation,
                                   .groups = o.groups}))) {}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Size2d kernel, ConvTranspose2dOptions o)
    : Convolution("ConvTranspose2d", filter_of(in, out, o.groups, {kernel.height, kernel.width}),
                  in, out, o.groups, o.bias, kernel_text(kernel, o.stride, o.padding),
                  FUNCTION(conv_transpose2d(x, weight, bias,
                                            {.stride = o.stride,
                                             .padding = o.padding,
                                             .output_padding = o.output_padding,
                                             .dilation = o.dilation,
                                             .groups = o.groups}))) {}

Conv3d::Conv3d(int64_t in, int64_t out, Size3d kernel, Conv3dOptions o, bool with_bias)
    : Convolution("Conv3d",
                  filter_of(out, in, o.groups, {kernel.depth, kernel.height, kernel.width}), in,
                  out, o.groups, with_bias, kernel_text(kernel, o.stride, o.padding),
                  FUNCTION(conv3d(x, weight, bias, o))) {}

ConvTranspose3d::ConvTranspose3d(int64_t in, int64_t out, Size3d kernel, Conv3dOptions o,
                                 Size3d output_padding, bool with_bias)
    : Convolution("ConvTranspose3d",
                  filter_of(in, out, o.groups, {kernel.depth, kernel.height, kernel.width}), in,
                  out, o.groups, with_bias, kernel_text(kernel, o.stride, o.padding),
                  FUNCTION(conv_transpose3d(x, weight, bias, o, output_padding))) {}

#undef FUNCTION

PReLU::PReLU(int64_t channels, double value)
    : Module("PReLU"), weight(add_parameter("weight", full({channels}, value))) {}

Embedding::Embedding(int64_t entries, int64_t features, std::optional<int64_t> padding_index)
    : Module("Embedding"),
      weight(add_parameter("weight", normal({entries, features}))),
      padding_index_(padding_index) {
  if (!padding_index) return;
  check(*padding_index >= -entries && *padding_index < entries,
        "Embedding: padding_index is outside the table; got {}, want {} to {}", *padding_index,
        -entries, entries - 1);
  if (*padding_index < 0) *padding_index_ += entries;
  init::zeros(untracked::select(weight, 0, *padding_index_));
}
std::string Embedding::options() const {
  return fmt::format("{}, {}", weight.size(0), weight.size(1));
}

Dropout::Dropout(double p) : Module("Dropout"), p(p) {
  check(p >= 0 && p <= 1, "Dropout: p is not a probability; got {}, want 0 to 1", p);
}
std::string Dropout::options() const { return fmt::format("p={}", p); }

std::string GELU::options() const { return form == GeluForm::tanh ? "form=tanh" : ""; }

ModuleList::ModuleList(const std::vector<Model>& modules) : Module("ModuleList") {
  for (const Model& module : modules) append(module);
}
void ModuleList::append(const Model& module) {
  add_existing(std::to_string(size()), module.shared());
}
Module& ModuleList::operator[](int64_t i) const {
  check(i >= -size() && i < size(), "ModuleList: index out of range; got {} of {}", i, size());
  return *children()[static_cast<size_t>(i < 0 ? i + size() : i)].second;
}
Tensor ModuleList::forward(const Tensor&) {
  fail("ModuleList: it has no forward; want calls of its modules, list[0](x), or Sequential");
}

ModuleDict::ModuleDict(std::initializer_list<std::pair<std::string, Model>> modules)
    : Module("ModuleDict") {
  for (const auto& [name, module] : modules) insert(name, module);
}
void ModuleDict::insert(const std::string& name, const Model& module) {
  add_existing(name, module.shared());
}
bool ModuleDict::contains(const std::string& name) const {
  return std::ranges::any_of(children(), [&](const auto& child) { return child.first == name; });
}
std::vector<std::string> ModuleDict::names() const {
  std::vector<std::string> all;
  for (const auto& [name, module] : children()) all.push_back(name);
  return all;
}
Module& ModuleDict::operator[](const std::string& name) const {
  for (const auto& [known, module] : children())
    if (known == name) return *module;
  fail("ModuleDict: no such module; got {}{}", name, legal_names(name, names()));
}
Tensor ModuleDict::forward(const Tensor&) {
  fail("ModuleDict: it has no forward; want calls of its modules, dict[\"name\"](x)");
}

ModuleTraits GELU::traits() const { return {.elementwise = true}; }
ModuleTraits Dropout::traits() const { return {.elementwise = true}; }

Sequential::Sequential(const std::vector<Model>& modules) : Module("Sequential") {
  for (const Model& module : modules) append(module);
}
void Sequential::append(const Model& module) {
  add_existing(std::to_string(size()), module.shared());
}
Module& Sequential::operator[](int64_t i) const {
  check(i >= 0 && i < size(), "Sequential: index out of range; got {} of {}", i, size());
  return *children()[static_cast<size_t>(i)].second;
}
// Returns the number of links. An empty Sequential is one link that returns its input.
int Sequential::link_count() const {
  int count = 0;
  for (const auto& [name, module] : children()) count += module->link_count();
  return std::max(count, 1);
}
Link Sequential::link(int i) const {
  check(i >= 0 && i < link_count(), "Sequential: link out of range; got {} of {}", i, link_count());
  int before = 0;
  for (const auto& [name, module] : children()) {
    const int count = module->link_count();
    if (i >= before && i < before + count) {
      Link found = module->link(i - before);
      found.name = found.name.empty() ? name : name + "." + found.name;
      return found;
    }
    before += count;
  }
  return Module::link(0);
}
ModuleTraits Sequential::traits() const {
  ModuleTraits traits = {.alone_only = true};
  std::string first;  // a linear layer without its pair yet
  for (const auto& [name, module] : children()) {
    if (module->named_modules().size() > 1) return {};  // more than a chain
    if (!dynamic_cast<const Linear*>(module.get())) {
      if (!module->traits().elementwise) first.clear();
    } else if (first.empty()) {
      first = name;
    } else {
      traits.tensor_plan.push_back({first, {.style = SplitStyle::column}});
      traits.tensor_plan.push_back({name, {.style = SplitStyle::row}});
      first.clear();
    }
  }
  return traits;
}
Tensor Sequential::forward_links(const Tensor& x, int first, int last) {
  return in_sequence(x, first, last);
}
Tensors Sequential::forward_named_links(const Tensors& x, int first, int last) {
  return in_sequence(x, first, last);
}
template <class T>
T Sequential::in_sequence(const T& x, int first, int last) const {
  T y = x;
  int before = 0;
  for (const auto& [name, module] : children()) {
    const int count = module->link_count();
    const int begin = std::max(first - before, 0), end = std::min(last - before, count);
    if (begin < end) y = module->run_links(y, begin, end);
    before += count;
  }
  return y;
}

}  // namespace booster
