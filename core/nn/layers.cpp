#include "core/nn/layers.h"

#include "core/nn/functional.h"
#include "core/nn/module_traits.h"

#include <algorithm>

namespace booster {
namespace {

std::string text_of(Size2d size) { return fmt::format("({}, {})", size.height, size.width); }

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

Conv2d::Conv2d(int64_t in, int64_t out, Size2d kernel, Conv2dOptions options)
    : Module("Conv2d"),
      weight(add_parameter("weight", empty({out, in / std::max<int64_t>(options.groups, 1),
                                            kernel.height, kernel.width}))),
      bias(add_parameter("bias", options.bias ? empty({out}) : Tensor())),
      options_(options) {
  check_sizes("Conv2d", in, out);
  check(options.groups > 0 && in % options.groups == 0 && out % options.groups == 0,
        "Conv2d: groups do not divide the channels; got {} groups for {} in, {} out",
        options.groups, in, out);
  init::layer_default(weight, bias);
}
Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups});
}
std::string Conv2d::options() const {
  return fmt::format("{}, {}, kernel={}, stride={}, padding={}, bias={}",
                     weight.size(1) * options_.groups, weight.size(0),
                     text_of({weight.size(2), weight.size(3)}), text_of(options_.stride),
                     text_of(options_.padding), bias.defined());
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Size2d kernel,
                                 ConvTranspose2dOptions options)
    : Module("ConvTranspose2d"),
      weight(add_parameter("weight", empty({in, out / std::max<int64_t>(options.groups, 1),
                                            kernel.height, kernel.width}))),
      bias(add_parameter("bias", options.bias ? empty({out}) : Tensor())),
      options_(options) {
  check_sizes("ConvTranspose2d", in, out);
  check(options.groups > 0 && in % options.groups == 0 && out % options.groups == 0,
        "ConvTranspose2d: groups do not divide the channels; got {} groups for {} in, {} out",
        options.groups, in, out);
  init::layer_default(weight, bias);
}
Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight, bias,
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .output_padding = options_.output_padding,
                           .dilation = options_.dilation,
                           .groups = options_.groups});
}
std::string ConvTranspose2d::options() const {
  return fmt::format("{}, {}, kernel={}, stride={}, padding={}, bias={}", weight.size(0),
                     weight.size(1) * options_.groups, text_of({weight.size(2), weight.size(3)}),
                     text_of(options_.stride), text_of(options_.padding), bias.defined());
}

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel, Conv1dOptions options, bool with_bias)
    : Module("Conv1d"),
      weight(
          add_parameter("weight", empty({out, in / std::max<int64_t>(options.groups, 1), kernel}))),
      bias(add_parameter("bias", with_bias ? empty({out}) : Tensor())),
      options_(options) {
  check_sizes("Conv1d", in, out);
  check(options.groups > 0 && in % options.groups == 0 && out % options.groups == 0,
        "Conv1d: groups do not divide the channels; got {} groups for {} in, {} out",
        options.groups, in, out);
  init::layer_default(weight, bias);
}
std::string Conv1d::options() const {
  return fmt::format("{}, {}, kernel={}, stride={}, padding={}, bias={}",
                     weight.size(1) * options_.groups, weight.size(0), weight.size(2),
                     options_.stride, options_.padding, bias.defined());
}

Conv3d::Conv3d(int64_t in, int64_t out, Size3d kernel, Conv3dOptions options, bool with_bias)
    : Module("Conv3d"),
      weight(add_parameter("weight", empty({out, in / std::max<int64_t>(options.groups, 1),
                                            kernel.depth, kernel.height, kernel.width}))),
      bias(add_parameter("bias", with_bias ? empty({out}) : Tensor())),
      options_(options) {
  check_sizes("Conv3d", in, out);
  check(options.groups > 0 && in % options.groups == 0 && out % options.groups == 0,
        "Conv3d: groups do not divide the channels; got {} groups for {} in, {} out",
        options.groups, in, out);
  init::layer_default(weight, bias);
}
std::string Conv3d::options() const {
  return fmt::format("{}, {}, kernel=({}, {}, {}), bias={}", weight.size(1) * options_.groups,
                     weight.size(0), weight.size(2), weight.size(3), weight.size(4),
                     bias.defined());
}

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
