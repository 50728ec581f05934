#include "mixed_precision/fp8/fp8_linear.h"

#include "core/autograd/node.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"
#include "kernels/catalogue.h"
#include "kernels/host/recording.h"

#include <fmt/format.h>

namespace booster {
namespace {

const float* number(const Tensor& x) { return static_cast<const float*>(x.data()); }

Quantized transposed(Quantized x) {
  x.codes = untracked::transpose(x.codes, 0, 1);
  return x;
}

// Returns a b + bias; bias is f32, 16-bit or undefined.
Tensor product(const Quantized& a, const Quantized& b, const Tensor& bias, DType dtype) {
  const Tensor y = empty({a.codes.size(0), b.codes.size(1)}, {dtype, a.codes.device()});
  kernels::on(y.device())
      .fp8_matmul(y.view(), a.codes.view(), a.format, b.codes.view(), b.format, bias.view(),
                  number(a.inverse_scale), number(b.inverse_scale));
  return y;
}

bool is_window_on(const Tensor& part, const Tensor& whole) {
  const int64_t begin = part.body()->offset - whole.body()->offset;
  return part.shares_storage(whole) && begin >= 0 && begin < whole.numel();
}

// The data that one call's backward needs.
struct Call {
  Quantized x, weight;
  Shape input_shape;
  DType input_dtype, weight_dtype, bias_dtype;
  std::shared_ptr<Fp8ScaleTable> gradients;
  int64_t index;

  void backward(const Tensor& g, Gradients& d) const {
    const Tensor rows =
        untracked::contiguous(untracked::reshape(g, {x.codes.size(0), weight.codes.size(0)}));
    if (d.wanted(0) || d.wanted(1)) {
      const Quantized dy = gradients->quantize(rows, index, true);
      if (d.wanted(0))
        d[0] = untracked::reshape(product(dy, weight, {}, input_dtype), input_shape);
      if (d.wanted(1)) d[1] = product(transposed(dy), x, {}, weight_dtype);
    }
    if (d.wanted(2)) {
      d[2] = empty({rows.size(1)}, {bias_dtype, rows.device()});
      kernels::on(rows.device()).column_sums(d[2].view(), rows.view());
    }
  }
};

// Returns "fc1 (input)" for every layer, grouped by role.
std::vector<std::string> names_of(const std::vector<Fp8Layer>& layers,
                                  std::initializer_list<const char*> roles) {
  std::vector<std::string> names;
  for (const char* role : roles)
    for (const Fp8Layer& layer : layers) names.push_back(fmt::format("{} ({})", layer.name, role));
  return names;
}

void check_shapes(const std::string& name, const Tensor& x, const Tensor& weight,
                  const Tensor& bias) {
  check(x.ndim() >= 1 && x.shape().back() == weight.size(1),
        "linear: the sizes do not match in {}; got input {} and weight {}, want (..., in) and "
        "(out, in)",
        name, x.shape().to_string(), weight.shape().to_string());
  check(!bias.defined() || bias.shape() == Shape{weight.size(0)},
        "linear: bias of {} must be {}; got {}", name, Shape{weight.size(0)}.to_string(),
        bias.defined() ? bias.shape().to_string() : "");
}

}  // namespace

Fp8Linear::Fp8Linear(const Fp8Recipe& recipe, Fp8Format gradients,
                     const std::vector<Fp8Layer>& layers)
    : recipe_(recipe),
      amaxes_(empty({3 * static_cast<int64_t>(layers.size())},
                    {DType::f32, layers.at(0).weight.device()})),
      forward_(recipe, Fp8Format::e4m3, names_of(layers, {"input", "weight"}),
               untracked::narrow(amaxes_, 0, 0, 2 * static_cast<int64_t>(layers.size()))),
      backward_(std::make_shared<Fp8ScaleTable>(
          recipe, gradients, names_of(layers, {"gradient"}),
          untracked::narrow(amaxes_, 0, 2 * static_cast<int64_t>(layers.size()),
                            static_cast<int64_t>(layers.size())))) {
  for (const Fp8Layer& layer : layers)
    entries_.push_back({layer, static_cast<int64_t>(entries_.size()), {}});
}

std::shared_ptr<LinearMethod> Fp8Linear::for_inference() const {
  Fp8Recipe recipe = recipe_;
  recipe.delayed = false;
  std::vector<Fp8Layer> layers;
  for (const Entry& entry : entries_) layers.push_back(entry.layer);
  auto method = std::make_shared<Fp8Linear>(recipe, Fp8Format::e5m2, layers);
  for (Entry& entry : method->entries_) method->quantized_weight(entry, entry.layer.weight);
  method->is_constant_ = true;
  return method;
}

// Looks the weight up by memory address, so that it also finds a view of a weight. It searches at
// each call, since a model may be converted after it was boosted.
Fp8Linear::Entry* Fp8Linear::entry_of(const Tensor& weight) {
  for (Entry& entry : entries_)
    if (is_window_on(weight, entry.layer.weight)) return &entry;
  return nullptr;
}

int64_t Fp8Linear::weight_index(const Entry& entry) const {
  return static_cast<int64_t>(entries_.size()) + entry.index;
}

// In training always counts the magnitude, since an activation checkpoint first runs forward
// without a tape.
Quantized Fp8Linear::quantized_weight(Entry& entry, const Tensor& weight) {
  const bool is_current =
      entry.weight.codes.defined() && entry.weight_version == weight.version();
  if (weight.same_body(entry.layer.weight) && is_current) return entry.weight;
  const Quantized quantized = forward_.quantize(weight, weight_index(entry), !is_constant_);
  if (is_constant_ || !weight.same_body(entry.layer.weight)) return quantized;
  entry.weight = quantized;
  set_memory_tag(entry.weight.codes, MemoryTag::copies);
  entry.weight_version = weight.version();
  return entry.weight;
}

Tensor Fp8Linear::linear(const Tensor& given_x, const Tensor& weight, const Tensor& given_bias) {
  Entry* entry = entry_of(weight);
  if (!entry || given_x.dtype() == DType::f64 || weight.dtype() == DType::f64) return {};
  kernels::refuse_to_record("a linear layer in fp8",
                            "because the host decides when the weight's codes are stale",
                            "another precision for captured work");
  Tensor x = given_x, bias = given_bias;
  apply_policy(Op::linear, {&x, &bias});
  check_shapes(entry->layer.name, x, weight, bias);
  Shape shape = x.shape();
  shape[x.ndim() - 1] = weight.size(0);
  const bool taped = must_record({x, weight, bias});
  const Tensor rows = untracked::reshape(x, {x.ndim() == 1 ? 1 : -1, x.shape().back()});
  Call call = {.x = forward_.quantize(rows, entry->index, taped),
               .weight = quantized_weight(*entry, weight),
               .input_shape = x.shape(),
               .input_dtype = x.dtype(),
               .weight_dtype = weight.dtype(),
               .bias_dtype = gradient_dtype(given_bias, bias),
               .gradients = backward_,
               .index = entry->index};
  const bool is_wide = bias.defined() && bias.dtype() == DType::f64;
  const Tensor offset = is_wide ? untracked::cast(bias, DType::f32) : bias;
  const Tensor y = product(call.x, transposed(call.weight),
                           offset.defined() ? untracked::contiguous(offset) : offset, x.dtype());
  return record(untracked::reshape(y, shape), "fp8_linear", {x, weight, bias},
                [call = std::move(call)](const Tensor& g, Gradients& d) { call.backward(g, d); });
}

Tensor Fp8Linear::maxima(Pass pass) const {
  const int64_t layers = static_cast<int64_t>(entries_.size());
  return pass == Pass::forward ? untracked::narrow(amaxes_, 0, 0, 2 * layers) : amaxes_;
}

void Fp8Linear::end_pass(Pass pass) {
  forward_.end_pass();
  if (pass == Pass::forward) return;
  backward_->end_pass();
  if (!recipe_.delayed) return;
  for (Entry& entry : entries_) entry.weight = {};  // the next scale may differ
}

Tensor Fp8Linear::non_finite() const {
  Tensor either = untracked::clone(forward_.non_finite());
  either.add_(backward_->non_finite());
  return either;
}

void Fp8Linear::forget_non_finite() {
  forward_.forget_non_finite();
  backward_->forget_non_finite();
}

StateDict Fp8Linear::state() const {
  StateDict all;
  const auto add = [&](const Fp8ScaleTable& table, int64_t i, const std::string& name) {
    for (NamedTensor& tensor : table.state(i, name)) all.push_back(std::move(tensor));
  };
  for (const Entry& entry : entries_) {
    add(forward_, entry.index, entry.layer.name + ".fp8.input");
    add(forward_, weight_index(entry), entry.layer.name + ".fp8.weight");
    add(*backward_, entry.index, entry.layer.name + ".fp8.gradient");
  }
  return all;
}

}  // namespace booster
