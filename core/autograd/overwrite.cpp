#include "core/autograd/overwrite.h"

#include "core/autograd/observer.h"
#include "core/autograd/tracking.h"
#include "core/tensor/grad_mode.h"

namespace booster {

bool is_exclusive(const Tensor& g) {
  const auto& storage = g.body()->storage;
  const bool lent = static_cast<bool>(storage->on_release);
  return g.body()->references() == 1 && storage->references() == 1 && !lent && g.is_contiguous();
}

Tensor room_in_place_of(const Tensor& g, const Tensor& like) {
  const bool fits = g.defined() && g.dtype() == like.dtype() && g.numel() == like.numel();
  const bool read_later = grad_enabled() || current_observer();
  if (!fits || read_later || !is_exclusive(g)) return empty_like(like);
  return untracked::reshape(g, like.shape());
}

}  // namespace booster
