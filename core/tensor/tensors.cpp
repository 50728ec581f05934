#include "core/tensor/tensors.h"

#include "platform/error.h"

#include <algorithm>
#include <utility>

namespace booster {

Tensors::Tensors(std::vector<NamedTensor> all) {
  for (NamedTensor& one : all) {
    check(!contains(one.name), "Tensors: two tensors have the same name; got {} again",
          one.name.empty() ? "\"\"" : one.name);
    set(one.name, std::move(one.tensor));
  }
}

void Tensors::set(const std::string& name, Tensor tensor) {
  check(tensor.defined(), "Tensors: {} is undefined; want a tensor, or no entry of that name",
        name.empty() ? "the tensor" : name);
  NamedTensor* here = several_.empty() ? &first_ : several_.data();
  NamedTensor* const last = here + size();
  const auto is_it = [&](const NamedTensor& one) { return one.name == name; };
  if (NamedTensor* place = std::find_if(here, last, is_it); place != last) {
    place->tensor = std::move(tensor);
    return;
  }
  if (empty()) {
    first_ = {name, std::move(tensor)};
    return;
  }
  if (name.empty() || contains(""))
    fail("Tensors: a tensor among several has no name; got {}, want a name for each",
         name.empty() ? names() : name);
  if (several_.empty()) several_.push_back(std::exchange(first_, {}));
  several_.push_back({name, std::move(tensor)});
}

Tensor Tensors::only() const {
  if (size() > 1)
    fail("Tensors: used as one tensor; got {} ({}), want exactly one", size(), names());
  return first_.tensor;
}

const Tensor* Tensors::find(std::string_view name) const {
  for (const NamedTensor& one : *this)
    if (one.name == name) return &one.tensor;
  return nullptr;
}

Tensor Tensors::operator[](std::string_view name) const {
  const Tensor* found = find(name);
  if (found) return *found;
  if (empty()) fail("Tensors: no such tensor; got {}, but there is none at all", name);
  if (contains("")) fail("Tensors: no such tensor; got {}, want the one without a name", name);
  std::vector<std::string> all;
  for (const NamedTensor& one : *this) all.push_back(one.name);
  fail("Tensors: no such tensor; got {}{}", name, legal_names(name, all));
}

std::string Tensors::names() const {
  if (empty()) return "none";
  if (contains("")) return "one without a name";
  std::string text;
  for (const NamedTensor& one : *this) text += (text.empty() ? "" : ", ") + one.name;
  return text;
}

std::vector<Tensor> Tensors::all() const {
  std::vector<Tensor> tensors;
  for (const NamedTensor& one : *this) tensors.push_back(one.tensor);
  return tensors;
}

int64_t Tensors::rows(const char* what) const {
  check(!empty(), "{}: got no tensor, so there are no rows", what);
  for (const auto& [name, tensor] : *this) {
    const std::string of = name.empty() ? "" : " of " + name;
    check(tensor.ndim() > 0, "{}: a tensor has no rows; got shape {}{}", what, tensor.shape(), of);
    const auto& [first_name, first] = *begin();
    check(tensor.size(0) == first.size(0),
          "{}: tensors differ in rows; got {} of {} and {} of {}, want the same", what,
          first.size(0), first_name, tensor.size(0), name);
  }
  return begin()->tensor.size(0);
}

int64_t Tensors::numel() const {
  int64_t count = 0;
  for (const NamedTensor& one : *this) count += one.tensor.numel();
  return count;
}

bool Tensors::requires_grad() const {
  return std::ranges::any_of(*this, [](const auto& one) { return one.tensor.requires_grad(); });
}

Device Tensors::device() const { return empty() ? Device{} : begin()->tensor.device(); }

}  // namespace booster
