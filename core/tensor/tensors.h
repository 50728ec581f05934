// Tensors: named tensors of any dtypes and shapes, in order. Models, losses and batches take and
// give one where they have more than one tensor.
//
//   const Tensors x = {{"tokens", tokens}, {"mask", mask}};
//   const Tensor y = embed(x["tokens"]) * x["mask"];
//
// One tensor converts to Tensors, which then hold it without a name, and back. So code for one
// tensor needs no names. A value; copies share the tensors' memory. Thread rules are Tensor's.
#pragma once

#include "core/tensor/tensor.h"

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

class Tensors {
 public:
  // Makes an empty list. An undefined tensor makes one too.
  Tensors() = default;
  Tensors(Tensor only) : first_{"", std::move(only)} {}
  // Throws for an empty name among several, for the same name twice and for an undefined tensor.
  Tensors(std::initializer_list<NamedTensor> all) : Tensors(std::vector<NamedTensor>(all)) {}
  explicit Tensors(std::vector<NamedTensor> all);

  // Returns the only tensor, whatever its name; undefined if there is none. Throws for several.
  Tensor only() const;
  operator Tensor() const { return only(); }
  // Returns the tensor of that name. Throws with the names that exist.
  Tensor operator[](std::string_view name) const;
  template <std::integral I>
  Tensor operator[](I place) const = delete;  // tensors have names; begin() has places
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Sets the tensor of that name, or adds one at the end. Throws as the constructor.
  void set(const std::string& name, Tensor tensor);

  bool empty() const { return size() == 0; }
  size_t size() const { return several_.empty() ? first_.tensor.defined() : several_.size(); }
  std::vector<Tensor> all() const;
  const NamedTensor* begin() const { return several_.empty() ? &first_ : several_.data(); }
  const NamedTensor* end() const { return begin() + size(); }
  // Returns the names as text: "tokens, mask"; "one without a name"; "none".
  std::string names() const;
  // Returns f(tensor) for each tensor, under its name.
  template <class F>
  Tensors map(F f) const {
    Tensors result = *this;
    if (several_.empty() && !empty()) result.first_.tensor = f(first_.tensor);
    for (auto& [name, tensor] : result.several_) tensor = f(tensor);
    return result;
  }

  // Returns the size of dimension 0, which all must have. `what` begins the error.
  int64_t rows(const char* what) const;
  // Returns the number of elements of all together.
  int64_t numel() const;
  // Returns the tensors on another device; recorded.
  Tensors to(Device device) const;
  bool requires_grad() const;  // of any
  Device device() const;       // of the first; the CPU if there is none

 private:
  const Tensor* find(std::string_view name) const;
  NamedTensor first_;                 // undefined, or the only one, which needs no list
  std::vector<NamedTensor> several_;  // if there are two or more
};

}  // namespace booster
