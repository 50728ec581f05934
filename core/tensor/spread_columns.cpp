#include "core/tensor/spread_columns.h"

#include "core/tensor/absence.h"

namespace booster {

Tensor spread_over_ranks(const SpreadColumns& columns) {
  Shape shape = columns.part.shape();
  shape[columns.part.ndim() - 1] = columns.ranks->all();
  const LazyInit without_memory;
  const Tensor whole = empty(shape, {columns.part.dtype(), columns.part.device()});
  if (whole.numel() == 0) return whole;
  const auto gather = [columns](Tensor x) { x.copy_(columns.ranks->gathered(columns.part)); };
  whole.body()->storage->absence->gather_on_use(columns, write_on_use(whole, gather));
  return whole;
}

SpreadColumns spread_columns(const Tensor& x) {
  if (!x.defined() || has_memory(x)) return {};
  const Storage& storage = *x.body()->storage;
  const SpreadColumns* columns = storage.absence->spread();
  const bool is_all = x.is_contiguous() && x.bytes() == storage.bytes;
  if (!columns || !is_all || x.dtype() != columns->part.dtype() || x.ndim() == 0 ||
      x.shape().back() != columns->ranks->all())
    return {};
  Shape shape = x.shape();
  shape[x.ndim() - 1] = columns->part.shape().back();
  return {untracked::reshape(columns->part, shape), columns->ranks};
}

}  // namespace booster
