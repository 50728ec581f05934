#include "core/tensor/computed_on_use.h"

#include "core/tensor/absence.h"

#include <utility>
#include <vector>

namespace booster {

namespace {

// x has no memory.
void set_recipe(const Tensor& x, std::shared_ptr<const Recipe> recipe) {
  const auto write = [recipe](const Tensor& to) {
    if (to.dtype() == recipe->dtype()) return recipe->write(to);
    const Tensor computed = empty(to.shape(), {recipe->dtype(), to.device()});
    recipe->write(computed);
    Tensor(to).copy_(computed);
  };
  x.body()->storage->absence->compute_on_use(std::move(recipe), x.shape().back(),
                                             write_on_use(x, write));
}

// Tensors that nothing has read. An entry that only this list still holds is not needed any more.
thread_local std::vector<Tensor> unread;

bool is_held_elsewhere(const Tensor& x) {
  return x.body()->references() > 1 || x.body()->storage->references() > 1;
}

void forget_unneeded() {
  std::erase_if(unread, [](const Tensor& x) { return has_memory(x) || !is_held_elsewhere(x); });
}

}  // namespace

void compute_unread() {
  forget_unneeded();
  for (const Tensor& x : std::exchange(unread, {})) x.view();
}

Tensor computed_on_use(const Shape& shape, const TensorOptions& options,
                       std::shared_ptr<const Recipe> recipe) {
  const LazyInit without_memory;
  const Tensor x = empty(shape, options);
  if (x.numel() == 0) return x;
  set_recipe(x, std::move(recipe));
  forget_unneeded();
  unread.push_back(x);
  return x;
}

void compute_again_on_use(const Tensor& x, std::shared_ptr<const Recipe> recipe) {
  if (x.numel() == 0) return;
  give_back_memory(x, "");
  set_recipe(x, std::move(recipe));
}

std::shared_ptr<const Recipe> recipe_of(const Tensor& x) {
  if (!x.defined() || has_memory(x)) return nullptr;
  const Storage& storage = *x.body()->storage;
  const ComputedOnUse* computed = storage.absence->computed();
  const bool is_all = x.is_contiguous() && x.bytes() == storage.bytes;
  if (!computed || !is_all || x.ndim() == 0 || x.shape().back() != computed->columns)
    return nullptr;
  return computed->recipe;
}

}  // namespace booster
