#include "booster/numerics/op_counts.h"

#include "core/autograd/observer.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::numerics {

namespace {

Column column_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return Column::f16;
    case DType::bf16: return Column::bf16;
    case DType::f32: return Column::f32;
    default: return Column::other;
  }
}

std::string direction(const Tensor& from, const Tensor& to) {
  return fmt::format("{} to {}", booster::name_of(from.dtype()), booster::name_of(to.dtype()));
}

}  // namespace

void OpCounts::add(const std::string& op, const OpPolicy* policy, OpClass op_class, DType dtype) {
  OpRow& row = ops_[op];
  ++row.calls[static_cast<size_t>(column_of(dtype))];
  row.list = policy ? booster::name_of(op_class) : "no policy";
  row.unlisted = policy && op_class == OpClass::untouched;
}

void OpCounts::add(const CastEvent& cast) {
  CastRow& row = casts_[direction(cast.from, cast.to)];
  row.nanoseconds += cast.nanoseconds;
  if (!cast.converted) {
    ++row.reused;
    return;
  }
  ++row.made;
  row.bytes += cast.from.bytes() + cast.to.bytes();
}

void OpCounts::add_backward_cast(const Tensor& from, const Tensor& to, int64_t nanoseconds) {
  CastRow& row = casts_[direction(from, to) + ", backward"];
  ++row.made;
  row.bytes += from.bytes() + to.bytes();
  row.nanoseconds += nanoseconds;
}

bool OpCounts::has(Column column) const {
  return std::any_of(ops_.begin(), ops_.end(), [column](const auto& entry) {
    return entry.second.calls[static_cast<size_t>(column)] > 0;
  });
}

std::map<std::string, int64_t> OpCounts::unlisted_in_16_bits() const {
  std::map<std::string, int64_t> unlisted;
  for (const auto& [op, row] : ops_)
    if (row.unlisted && row.calls[0] + row.calls[1] > 0) unlisted[op] = row.calls[0] + row.calls[1];
  return unlisted;
}

std::string OpCounts::table() const {
  std::string text = fmt::format("{:<28} {:>8} {:>8} {:>8} {:>8}  {}\n", "op", "FP16", "BF16",
                                 "FP32", "Other", "list");
  for (const auto& [op, row] : ops_)
    text += fmt::format("{:<28} {:>8} {:>8} {:>8} {:>8}  {}\n", op, row.calls[0], row.calls[1],
                        row.calls[2], row.calls[3], row.unlisted ? "none" : row.list);
  text += fmt::format("op count: {}\n", ops_.size());
  if (casts_.empty()) return text;
  text += fmt::format("\n{:<28} {:>8} {:>8} {:>8} {:>8}\n", "casts", "made", "reused", "MB", "ms");
  for (const auto& [name, row] : casts_)
    text += fmt::format("{:<28} {:>8} {:>8} {:>8.1f} {:>8.2f}\n", name, row.made, row.reused,
                        1e-6 * static_cast<double>(row.bytes),
                        1e-6 * static_cast<double>(row.nanoseconds));
  return text;
}

nlohmann::ordered_json OpCounts::to_json() const {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array(), casts = ops;
  for (const auto& [op, row] : ops_)
    ops.push_back({{"op", op},
                   {"fp16", row.calls[0]},
                   {"bf16", row.calls[1]},
                   {"fp32", row.calls[2]},
                   {"other", row.calls[3]},
                   {"list", row.unlisted ? "none" : row.list}});
  for (const auto& [name, row] : casts_)
    casts.push_back({{"cast", name},
                     {"made", row.made},
                     {"reused", row.reused},
                     {"bytes", row.bytes},
                     {"seconds", 1e-9 * static_cast<double>(row.nanoseconds)}});
  return {{"ops", ops}, {"casts", casts}};
}

}  // namespace booster::numerics
