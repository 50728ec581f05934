#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/functional/arguments.h"
#include "kernels/catalogue.h"

namespace booster {

Tensor embedding(const Tensor& index, const Tensor& entries, std::optional<int64_t> padding_index) {
  Tensor table = entries;
  arguments::floating("embedding", "table", table);
  apply_policy(Op::embedding, {&table});
  if (table.ndim() != 2)
    fail("embedding: table has the wrong shape; got {}, want (entries, features)", table.shape());
  const Tensor rows = arguments::indices("embedding", "index", index);
  Shape shape = rows.shape();
  shape.push_back(table.size(1));
  Tensor y = empty(shape, {table.dtype(), table.device()});
  const Tensor bad = full({1}, -1, {DType::i64, table.device()});
  kernels::on(table.device())
      .embedding(y.view(), bad.view(), untracked::contiguous(table).view(), rows.view());
  if (const auto at = static_cast<int64_t>(bad.item()); at >= 0)
    fail("embedding: index is outside the table; got {} at position {}, want 0 to {}",
         rows.to_vector<int64_t>()[at], at, table.size(0) - 1);
  // Each row of the table gets the sum of the gradients of the outputs that read it.
  return record(y, "embedding", {table},
                [rows = Saved(rows), shape = table.shape(), padding = padding_index.value_or(-1)](
                    const Tensor& g, Gradients& d) {
                  d[0] = zeros(shape, {g.dtype(), g.device()});
                  kernels::on(g.device())
                      .embedding_backward(d[0].view(), untracked::contiguous(g).view(),
                                          rows.get().view(), padding);
                });
}

}  // namespace booster
