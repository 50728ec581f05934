#include "core/data/collate.h"

#include "platform/error.h"

#include <algorithm>
#include <cstring>

namespace booster {
namespace {

using Part = Tensors (Sample::*)() const;
using Padding = std::vector<std::pair<std::string, double>>;

// The name of a tensor in errors and in pad_to_longest.
std::string title_of(const std::string& name, Part part) {
  if (!name.empty()) return name;
  return part == &Sample::inputs ? "image" : "label";
}

// Copies x to the begin of row i, of `size` bytes.
void write_row(const Tensor& all, int64_t i, const Tensor& x) {
  char* row = static_cast<char*>(all.data()) + i * (all.bytes() / all.size(0));
  std::memcpy(row, x.data(), static_cast<size_t>(x.bytes()));
}

// Stacks tensors that may differ in dimension 0 if `pad` is there.
Tensor stacked(const std::vector<Tensor>& parts, const std::string& title, const double* pad) {
  Shape shape = parts[0].shape();
  for (const Tensor& part : parts) {
    Shape fits = part.shape();
    if (pad && fits.ndim() > 0 && fits.ndim() == shape.ndim()) {
      shape[0] = std::max(shape[0], fits[0]);
      fits[0] = shape[0];
    }
    check(part.dtype() == parts[0].dtype(),
          "DataLoader: samples of one batch differ in the dtype of {}; got {} and {}", title,
          name_of(part.dtype()), name_of(parts[0].dtype()));
    check(fits == shape,
          "DataLoader: samples of one batch differ in the shape of {}; got {} and {}, want {}",
          title, part.shape(), parts[0].shape(),
          pad ? "the same except in dimension 0"
              : "the same, or .collate = pad_to_longest(...) (core/data/loader.h)");
  }
  shape.insert(0, static_cast<int64_t>(parts.size()));
  const TensorOptions options = {.dtype = parts[0].dtype()};
  const Tensor all = pad ? full(shape, *pad, options) : empty(shape, options);
  for (size_t i = 0; i < parts.size(); ++i) write_row(all, static_cast<int64_t>(i), parts[i]);
  return all;
}

Tensors joined(const std::vector<Sample>& samples, Part part, const Padding& padding) {
  const Tensors first = (samples[0].*part)();
  std::vector<Tensors> all;
  for (const Sample& sample : samples) {
    all.push_back((sample.*part)());
    check(all.back().names() == first.names(),
          "DataLoader: samples of one batch have tensors of different names; got {} and {}, want "
          "the same",
          all.back().names(), first.names());
  }
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : first) {
    std::vector<Tensor> parts;
    for (const Tensors& one : all) parts.push_back(name.empty() ? one.only() : one[name]);
    const std::string title = title_of(name, part);
    const auto pad = std::ranges::find(padding, title, &Padding::value_type::first);
    result.push_back({name, stacked(parts, title, pad == padding.end() ? nullptr : &pad->second)});
  }
  return Tensors(std::move(result));
}

Batch batch_of(const std::vector<Sample>& samples, const Padding& padding) {
  const Tensors inputs = joined(samples, &Sample::inputs, padding),
                targets = joined(samples, &Sample::targets, padding);
  if (samples[0].is_named()) return {{}, {}, inputs, targets};
  return {inputs.only(), targets.only()};
}

void check_names(const Sample& sample, const Padding& padding) {
  std::vector<std::string> titles;
  for (const Part part : {&Sample::inputs, &Sample::targets})
    for (const auto& [name, tensor] : (sample.*part)()) titles.push_back(title_of(name, part));
  for (const auto& [name, value] : padding)
    check(std::ranges::find(titles, name) != titles.end(),
          "pad_to_longest: no such tensor in the samples; got {}{}", name,
          legal_names(name, titles));
}

}  // namespace

Batch stacked(const std::vector<Sample>& samples) { return batch_of(samples, {}); }

Collate pad_to_longest(std::vector<std::pair<std::string, double>> values) {
  check(!values.empty(),
        "pad_to_longest: no names; want the tensors to pad and their values, {{\"tokens\", 0}}");
  return [values = std::move(values)](const std::vector<Sample>& samples) {
    check_names(samples[0], values);
    return batch_of(samples, values);
  };
}

}  // namespace booster
