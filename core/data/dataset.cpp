#include "core/data/dataset.h"

#include "platform/error.h"

#include <algorithm>
#include <cstring>

namespace booster {
namespace {

Tensor label_tensor(int64_t label) {
  Tensor tensor = empty({}, {.dtype = DType::i64});
  *tensor.data<int64_t>() = label;
  return tensor;
}

}  // namespace

Sample::Sample(LazyImage image, int64_t label)
    : image_(std::move(image)), label_(label_tensor(label)) {}
Sample::Sample(Tensor image, int64_t label) : Sample(std::move(image), label_tensor(label)) {}
Sample::Sample(Tensor image, Tensor label)
    : image_(untracked::contiguous(image)), label_(untracked::contiguous(label)) {}

Sample Sample::named(Tensors inputs, Tensors targets) {
  if (inputs.empty() || inputs.contains(""))
    fail("Sample: its inputs have no names; got {}, want names, or Sample(image, label)",
         inputs.names());
  for (const auto& [name, tensor] : targets)
    check(!name.empty() && !inputs.contains(name),
          "Sample: an input and a target have the same name, or a target has none; got \"{}\"",
          name);
  Sample sample;
  sample.named_inputs_ = inputs.map(untracked::contiguous);
  sample.named_targets_ = targets.map(untracked::contiguous);
  return sample;
}

Tensors Sample::inputs() const {
  if (is_named()) return named_inputs_;
  if (!lazy()) return std::get<Tensor>(image_);
  Tensor image = empty(shape());
  write(image.data());
  return image;
}

Tensors Sample::targets() const { return is_named() ? named_targets_ : Tensors(label_); }

Shape Sample::shape() const {
  if (const auto* tensor = std::get_if<Tensor>(&image_)) return tensor->shape();
  const auto& image = std::get<LazyImage>(image_);
  return {image.channels(), image.height(), image.width()};
}

DType Sample::dtype() const {
  const auto* tensor = std::get_if<Tensor>(&image_);
  return tensor ? tensor->dtype() : DType::f32;
}

void Sample::write(void* to) const {
  if (const auto* tensor = std::get_if<Tensor>(&image_))
    std::memcpy(to, tensor->data(), static_cast<size_t>(tensor->bytes()));
  else
    std::get<LazyImage>(image_).write(static_cast<float*>(to));
}

std::string Sample::name() const {
  const auto* image = std::get_if<LazyImage>(&image_);
  return image ? image->name() : std::string();
}

int64_t StreamDataset::size() const {
  fail("StreamDataset: size() of a stream; its length is unknown before its end");
}

Sample StreamDataset::load(int64_t, RandomStream&) const {
  fail("StreamDataset: load() of a stream, which has no index; want open()");
}

TensorDataset::TensorDataset(Tensor inputs, Tensor targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  check(inputs_.ndim() > 0 && targets_.ndim() > 0 && inputs_.size(0) == targets_.size(0),
        "TensorDataset: inputs and targets differ in rows; got shapes {} and {}", targets_.shape(),
        inputs_.shape());
}

Sample TensorDataset::load(int64_t index, RandomStream&) const {
  return {untracked::select(inputs_, 0, index), untracked::select(targets_, 0, index)};
}

DatasetIdentity TensorDataset::identity() const {
  constexpr int64_t most_bytes = int64_t{1} << 20;
  Fingerprint fingerprint;
  for (const Tensor& tensor : {inputs_, targets_}) {
    fingerprint.add(name_of(tensor.dtype()));
    fingerprint.add(tensor.shape().to_string());
  }
  const int64_t row = targets_.bytes() / std::max<int64_t>(size(), 1);
  const int64_t rows = std::min(size(), most_bytes / std::max<int64_t>(row, 1));
  const Tensor first = untracked::contiguous(untracked::narrow(targets_, 0, 0, rows));
  if (first.bytes() > 0)
    fingerprint.add({static_cast<const char*>(first.data()), static_cast<size_t>(first.bytes())});
  return {.kind = "tensors", .samples = size(), .fingerprint = fingerprint.value()};
}

}  // namespace booster
