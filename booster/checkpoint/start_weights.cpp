#include "booster/checkpoint/start_weights.h"

#include "booster/checkpoint/model_files.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "core/nn/functional.h"
#include "core/nn/joined_traits.h"
#include "core/nn/module_traits.h"
#include "core/tensor/tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

namespace booster {

namespace {

// Returns whether a tensor is of a layer with one output per class.
bool is_of_head(const ModuleTraits& traits, const std::string& name) {
  return std::ranges::any_of(traits.heads,
                             [&](const std::string& head) { return lies_in(name, head); });
}

StoredShapes shapes_of(const TensorMap& tensors) {
  StoredShapes shapes;
  for (const auto& [name, tensor] : tensors)
    shapes.emplace(name, std::vector<uint64_t>(tensor.shape().begin(), tensor.shape().end()));
  return shapes;
}

// Returns all tensors of the files, by the model's names.
TensorMap read_all(Module& model, const std::filesystem::path& path) {
  TensorMap stored;
  for (const auto& file : find_model_files(path).files) stored.merge(load_safetensors(file));
  const std::string wrapper = wrapper_of(shapes_of(stored), model);
  TensorMap unwrapped;
  for (const auto& [name, tensor] : stored) unwrapped.emplace(without(wrapper, name), tensor);
  const FileForms forms(model, shapes_of(unwrapped));
  TensorMap renamed;
  for (const auto& [name, tensor] : unwrapped)
    if (const NamedTensor own = forms.from_file({name, tensor}); own.tensor.defined())
      renamed.emplace(own.name, own.tensor);
  return renamed;
}

// Returns the side of a square grid of `patches` patches, or 0 if there is none.
int64_t side_of(int64_t patches) {
  const auto side = std::llround(std::sqrt(static_cast<double>(patches)));
  return side * side == patches ? side : 0;
}

// Resizes embeddings of shape (1, 1 + patches, features). The class token's embedding stays; the
// others belong to a square grid.
Tensor resized_positions(const Tensor& stored, const Shape& wanted, const std::string& name,
                         const std::string& what) {
  const bool alike = stored.ndim() == 3 && wanted.ndim() == 3 && stored.size(0) == 1 &&
                     stored.size(2) == wanted[2];
  const int64_t from = alike ? side_of(stored.size(1) - 1) : 0,
                to = alike ? side_of(wanted[1] - 1) : 0;
  if (from == 0 || to == 0)
    fail_data("{}: {} cannot be resized; got shape {}, want {}", what, name, stored.shape(),
              wanted);
  const Tensor whole = untracked::cast(stored, DType::f32);
  const Tensor grid = reshape(narrow(whole, 1, 1, from * from), {1, from, from, wanted[2]});
  const Tensor image = interpolate(permute(grid, {0, 3, 1, 2}), {to, to},
                                   {.mode = "bicubic", .antialias = true});
  const Tensor patches = reshape(permute(image, {0, 2, 3, 1}), {1, to * to, wanted[2]});
  return cat({narrow(whole, 1, 0, 1), patches}, 1);
}

std::string first_few(std::span<const std::string> names) {
  constexpr size_t most = 5;
  const std::string shown =
      fmt::format("{}", fmt::join(names.first(std::min(names.size(), most)), ", "));
  return names.size() > most ? fmt::format("{} and {} more", shown, names.size() - most) : shown;
}

void refuse(const std::filesystem::path& path, const std::vector<std::string>& missing,
            const std::vector<std::string>& different) {
  if (!missing.empty())
    fail_data("{}: lacks {} tensors of the model: {}", path.string(), missing.size(),
              first_few(missing));
  if (!different.empty())
    fail_data("{}: {} tensors have other shapes than the model's: {}", path.string(),
              different.size(), first_few(different));
}

}  // namespace

std::string StartWeights::to_string() const {
  std::string text;
  const auto add = [&](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", names.size(), what,
                        first_few(names));
  };
  add(resized, "resized");
  add(fresh, "new");
  add(unused, "unused");
  return text;
}

StartWeights load_start_weights(const Model& model, const std::filesystem::path& path) {
  const NoGradGuard no_grad;
  const ModuleTraits traits = joined_traits(model.module());
  const auto is_grid = [&](const std::string& name) {
    return std::ranges::find(traits.position_grids, name) != traits.position_grids.end();
  };
  TensorMap stored = read_all(model.module(), path);
  const StateDict own = model.state_dict();
  const std::set<std::string> optional = model->optional_names();
  StartWeights what;
  std::vector<std::string> missing, different;
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, tensor] : own) {
    const auto found = stored.extract(name);
    const bool fits = !found.empty() && found.mapped().shape() == tensor.shape();
    if (fits) {
      copies.emplace_back(tensor, found.mapped());
    } else if (is_of_head(traits, name)) {
      what.fresh.push_back(name);
    } else if (found.empty() && optional.contains(name)) {
      continue;
    } else if (found.empty()) {
      missing.push_back(name);
    } else if (is_grid(name) && found.mapped().size(-1) == tensor.size(-1)) {
      copies.emplace_back(tensor,
                          resized_positions(found.mapped(), tensor.shape(), name, path.string()));
      what.resized.push_back(name);
    } else {
      different.push_back(fmt::format("{} (got {}, want {})", name,
                                      found.mapped().shape(), tensor.shape()));
    }
  }
  refuse(path, missing, different);
  for (const auto& [name, tensor] : stored) what.unused.push_back(name);
  for (auto& [to, from] : copies) to.detach().copy_(from);
  return what;
}

}  // namespace booster
