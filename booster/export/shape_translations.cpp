// Ops that rearrange, cut and join tensors.
#include "booster/export/translations.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace booster::onnx {
namespace {

using Value = Graph::Value;

void as_it_is(Translator& t) { t.result(t.input(0)); }

// Translates reshape, squeeze and unsqueeze by the result's shape.
void reshape(Translator& t) { t.result(t.reshaped(t.input(0), t.shape(0), t.result_shape())); }

void expand(Translator& t) { t.result(t.add("Expand", {t.input(0), t.sizes(t.result_shape())})); }

void permute(Translator& t) {
  std::vector<int64_t> order = t.integers("order");
  for (int64_t& dim : order) dim = normal_dim("permute", dim, t.ndim(0));
  t.result(t.add("Transpose", {t.input(0)}, {attribute("perm", order)}));
}

void transpose(Translator& t) {
  std::vector<int64_t> order(static_cast<size_t>(t.ndim(0)));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<int64_t> dims = t.integers("dims");
  if (!order.empty())
    std::swap(order[static_cast<size_t>(normal_dim("transpose", dims[0], t.ndim(0)))],
              order[static_cast<size_t>(normal_dim("transpose", dims[1], t.ndim(0)))]);
  t.result(t.add("Transpose", {t.input(0)}, {attribute("perm", order)}));
}

void cat(Translator& t) {
  std::vector<Value> parts;
  for (size_t i = 0; i < t.input_count(); ++i) parts.push_back(t.input_as(i, t.result_kind()));
  t.result(t.add("Concat", parts, {attribute("axis", t.integer("dim"))}));
}

Value slice_of(Translator& t, const Varying& start, const Varying& end, int64_t dim, int64_t step) {
  return t.add("Slice", {t.input(0), t.size(start), t.size(end), t.graph().integers({dim}),
                         t.graph().integers({step})});
}

void slice(Translator& t) {
  const int64_t dim = normal_dim("slice", t.integer("dim"), t.ndim(0));
  t.result(slice_of(t, t.varying("start"), t.varying("end"), dim, t.integer("step")));
}

void split(Translator& t) {
  const int64_t dim = t.integer("dim");
  Varying start(t.shape(0)[static_cast<size_t>(dim)].size(), 0);
  for (size_t i = 0; i < t.output_count(); ++i) {
    const Varying size = t.result_shape(i)[static_cast<size_t>(dim)];
    Varying end = start;
    for (size_t k = 0; k < end.size(); ++k) end[k] += size[k];
    t.result(slice_of(t, start, end, dim, 1), i);
    start = end;
  }
}

Value taken(Translator& t, int64_t dim, const Value& index) {
  return t.add("Gather", {t.input(0), index}, {attribute("axis", dim)});
}

void unbind(Translator& t) {
  for (size_t i = 0; i < t.output_count(); ++i)
    t.result(taken(t, t.integer("dim"), t.graph().index(static_cast<int64_t>(i))), i);
}

void select(Translator& t) {
  const Varying index = t.varying("index");
  const Value place =
      is_constant(index) ? t.graph().index(index[0]) : t.add("Squeeze", {t.size(index)});
  t.result(taken(t, t.integer("dim"), place));
}

void pad(Translator& t) {
  std::vector<int64_t> widths = t.integers("before");
  for (const int64_t width : t.integers("after")) widths.push_back(width);
  const Kind kind = t.result_kind();
  t.result(t.add("Pad", {t.input_as(0, kind), t.graph().integers(widths),
                         t.constant(t.number("number"), kind)}));
}

}  // namespace

std::vector<TranslationRow> shape_translations() {
  return {
      {"reshape", reshape},
      {"squeeze", reshape},
      {"unsqueeze", reshape},
      {"contiguous", as_it_is},
      {"clone", as_it_is},
      {"to", as_it_is},
      {"channels_last", as_it_is},
      {"expand", expand},
      {"permute", permute},
      {"transpose", transpose},
      {"cat", cat},
      {"pad", pad},
      {"slice", slice},
      {"split", split},
      {"unbind", unbind},
      {"select", select},
  };
}

}  // namespace booster::onnx
