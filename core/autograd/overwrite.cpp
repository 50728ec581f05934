#include "core/autograd/overwrite.h"

#include "core/autograd/observer.h"
#include "core/autograd/tracking.h"
#include "core/tensor/channels_last.h"
#include "core/tensor/tensor.h"

namespace booster {

bool is_exclusive(const Tensor& g) {
  const auto& storage = g.body()->storage;
  const bool lent = static_cast<bool>(storage->on_release);
  return g.body()->references() == 1 && storage->references() == 1 && !lent &&
         (g.is_contiguous() || is_dense_channels_last(g));
}

Tensor room_in_place_of(const Tensor& g, const Tensor& like) {
  const auto fits = [&] {
    if (!g.defined() || g.dtype() != like.dtype()) return false;
    if (is_channels_last(g) || is_channels_last(like))
      return is_channels_last(g) && is_channels_last(like) && g.shape() == like.shape();
    return g.numel() == like.numel();
  };
  const bool read_later = grad_enabled() || current_observer();
  if (read_later || !fits() || !is_exclusive(g)) return empty_in_order_of(like, like.dtype());
  return untracked::reshape(g, like.shape());
}

}  // namespace booster
