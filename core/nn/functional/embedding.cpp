#include "core/autograd/layer_split.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/tape.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "core/tensor/checks/checked_index.h"
#include "kernels/catalogue.h"

#include <algorithm>

namespace booster {

namespace {

[[noreturn]] void bad_index(const Tensor& rows, int64_t at, int64_t entries) {
  fail("embedding: index is outside the table; got {} at position {}, want 0 to {}",
       rows.to_vector<int64_t>()[at], at, entries - 1);
}

// Returns the table's rows at the indices `rows`.
Tensor rows_of(const Tensor& rows, Tensor table, int64_t padding) {
  apply_policy(Op::embedding, {&table});
  Shape shape = rows.shape();
  shape.push_back(table.size(1));
  const Tensor y = room_for_read(shape, {table.dtype(), table.device()});
  const Tensor bad = full({1}, -1, {DType::i64, table.device()});
  kernels::on(table.device())
      .embedding(y.view(), bad.view(), untracked::contiguous(table).view(), rows.view());
  const Tensor inside =
      checked_index(bad, rows, table.size(0), [rows, entries = table.size(0)](int64_t at) {
        bad_index(rows, at, entries);
      });
  // Each row of the table gets the sum of the gradients of the outputs that read it.
  return record(
      y, "embedding", {table},
      [rows = Saved(inside), shape = table.shape(), padding](const Tensor& g, Gradients& d) {
        d[0] = zeros(shape, {g.dtype(), g.device()});
        kernels::on(g.device())
            .embedding_backward(d[0].view(), untracked::contiguous(g).view(), rows.get().view(),
                                padding);
      });
}

// Looks up rows of a split table. Ranks without an entry look up another one and multiply it by 0.
Tensor split_rows(const LayerSplit& split, const Tensor& rows, const Tensor& table,
                  int64_t padding) {
  const ElementRange here = split.rows();
  const auto values = rows.to_vector<int64_t>();
  std::vector<int64_t> local(values.size());
  std::vector<float> is_here(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = values[i];
    if (row < 0 || row >= split.all_rows())
      bad_index(rows, static_cast<int64_t>(i), split.all_rows());
    is_here[i] = row >= here.begin && row < here.end;
    local[i] = is_here[i] ? row - here.begin : 0;
  }
  const int64_t padding_here =
      padding >= here.begin && padding < here.end ? padding - here.begin : -1;
  Shape each = rows.shape();
  each.push_back(1);
  const Tensor found =
      rows_of(from_vector(local, rows.shape()).to(table.device()), table, padding_here);
  const Tensor mask = from_vector(is_here, each).to(table.device());
  return split.sum_of_rows(mul(found, cast(mask, found.dtype())));
}

// Returns the padding row; -1 if there is none.
int64_t padding_row(std::optional<int64_t> index, int64_t entries) {
  if (!index) return -1;
  check(*index >= -entries && *index < entries,
        "embedding: padding_index is outside the table; got {}, want {} to {}", *index, -entries,
        entries - 1);
  return *index < 0 ? *index + entries : *index;
}

}  // namespace

Tensor embedding(const Tensor& index, const Tensor& table, std::optional<int64_t> padding_index) {
  arguments::floating("embedding", "table", table);
  const Tensor rows = arguments::indices("embedding", "index", index);
  if (table.ndim() != 2)
    fail("embedding: table has the wrong shape; got {}, want (entries, features)", table.shape());
  const LayerSplit* split = layer_split(table);
  const int64_t padding = padding_row(padding_index, split ? split->all_rows() : table.size(0));
  if (split) return split_rows(*split, rows, table, padding);
  const Tensor y = rows_of(rows, table, padding);
  if (op_recorder) [[unlikely]]
    note_op("embedding", {index, table}, {y});
  return y;
}

Tensor embedding_bag(const Tensor& index, const Tensor& table, const Tensor& offsets,
                     const std::string& mode) {
  check(mode == "sum" || mode == "mean", "embedding_bag: unknown mode; got {}{}", mode,
        legal_names(mode, {"sum", "mean"}));
  const Tensor rows = embedding(index, table);
  const int dims = offsets.defined() ? 1 : 2;
  if (index.ndim() != dims)
    fail("embedding_bag: index has the wrong shape; got {}, want {}", index.shape(),
         offsets.defined() ? "(n) with offsets" : "(bags, n)");
  if (!offsets.defined()) return mode == "mean" ? mean(rows, {1}) : sum(rows, {1});
  const auto starts = offsets.to_vector<int64_t>();
  const auto bags = static_cast<int64_t>(starts.size());
  std::vector<int64_t> bag(static_cast<size_t>(index.numel()));
  std::vector<double> counts(starts.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t end = i + 1 < starts.size() ? starts[i + 1] : index.numel();
    check(starts[i] >= 0 && starts[i] <= end && (i > 0 || starts[i] == 0),
          "embedding_bag: offsets must begin at 0 and not fall; got {} at position {}", starts[i],
          i);
    check(end <= index.numel(), "embedding_bag: an offset is beyond the index; got {} of {}", end,
          index.numel());
    counts[i] = static_cast<double>(std::max<int64_t>(end - starts[i], 1));
    std::fill(bag.begin() + starts[i], bag.begin() + end, static_cast<int64_t>(i));
  }
  const PolicyScope inside(nullptr);
  const Tensor none = zeros({bags, table.size(1)}, {rows.dtype(), rows.device()});
  const Tensor sums = index_add(none, 0, from_vector(bag, index.shape()).to(rows.device()), rows);
  if (mode == "sum") return sums;
  return sums / untracked::cast(from_vector(counts, {bags, 1}), rows.dtype()).to(rows.device());
}

}  // namespace booster
