// Reductions, positions of extremes, running sums and order.
#include "booster/export/translations.h"

#include <numeric>

namespace booster::onnx {
namespace {

using Value = Graph::Value;
using Sizes64 = std::vector<int64_t>;

// Returns the dimensions that are reduced, from 0: all if the op names none.
Sizes64 reduced_dims(Translator& t) {
  Sizes64 dims = t.integers("dims");
  if (dims.empty()) {
    dims.resize(static_cast<size_t>(t.ndim(0)));
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (int64_t& dim : dims) dim = normal_dim_or_only("reduce", dim, t.ndim(0));
  return t.ndim(0) == 0 ? Sizes64() : dims;
}

// Returns x as numbers: masks become integers, since they are counted.
Value numbers(Translator& t) {
  const Kind kind = t.kind(0);
  return t.input_as(0, kind == Kind::truth ? Kind::integer : kind);
}

Value sum_over(Translator& t, const Value& x, const Sizes64& dims, bool keep_dims) {
  return t.add("ReduceSum", {x, t.graph().integers(dims)},
               {attribute("keepdims", int64_t{keep_dims})});
}

void sum(Translator& t) {
  const Sizes64 dims = reduced_dims(t);
  const Value x = numbers(t);
  t.result(dims.empty() ? x : sum_over(t, x, dims, t.integer("keep_dims")));
}

Value reduced(Translator& t, const char* operation, const Value& x, const Sizes64& dims,
              bool keep_dims) {
  if (dims.empty()) return x;
  return t.add(operation, {x},
               {attribute("axes", dims), attribute("keepdims", int64_t{keep_dims})});
}

Translation reduction(const char* operation) {
  return [=](Translator& t) {
    const Kind kind = t.kind(0) == Kind::truth ? Kind::integer : t.kind(0);
    const Value y = reduced(t, operation, numbers(t), reduced_dims(t), t.integer("keep_dims"));
    t.result(t.converted(y, kind, t.result_kind()));
  };
}

// Returns the mean of squared deviations; the divisor is n, or n - 1 if it is unbiased, and at
// least 0.
Value variance(Translator& t) {
  const Sizes64 dims = reduced_dims(t);
  const bool keep_dims = t.integer("keep_dims");
  const Value x = t.input(0), mean = reduced(t, "ReduceMean", x, dims, true);
  const Value deviation = t.add("Sub", {x, mean});
  const Value squares = t.add("Mul", {deviation, deviation});
  if (!t.integer("unbiased")) return reduced(t, "ReduceMean", squares, dims, keep_dims);
  const Value sum = dims.empty() ? squares : sum_over(t, squares, dims, keep_dims);
  const auto count_of = [&](const Value& value) {
    return t.converted(t.add("Size", {value}), Kind::integer, Kind::floating);
  };
  const Value count = t.add("Div", {count_of(x), count_of(mean)});
  const Value divisor =
      t.add("Max", {t.add("Sub", {count, t.graph().number(1)}), t.graph().number(0)});
  return t.add("Div", {sum, divisor});
}

void var(Translator& t) { t.result(variance(t)); }
void stddev(Translator& t) { t.result(t.add("Sqrt", {variance(t)})); }

// Translates the position of an extreme. Of equal ones the first counts, as in this library.
Translation position(const char* operation) {
  return [=](Translator& t) {
    t.result(t.add(operation, {numbers(t)},
                   {attribute("axis", t.integers("dims").at(0)),
                    attribute("keepdims", t.integer("keep_dims"))}));
  };
}

void cumsum(Translator& t) {
  if (t.integer("reverse")) t.refuse("no operator for suffix sums");
  t.result(t.add("CumSum", {numbers(t), t.graph().index(t.integer("dim"))}));
}

// Translates positions in sorted order. Equal elements keep their order, as in this library.
void order(Translator& t) {
  t.result(t.graph().add_several(
      "TopK", {numbers(t), t.size(t.varying("count"))},
      {attribute("axis", t.integer("dim")), attribute("largest", t.integer("descending")),
       attribute("sorted", int64_t{1})},
      2)[1]);
}

}  // namespace

std::vector<TranslationRow> reduction_translations() {
  return {
      {"sum", sum},
      {"mean", reduction("ReduceMean")},
      {"amax", reduction("ReduceMax")},
      {"amin", reduction("ReduceMin")},
      {"var", var},
      {"stddev", stddev},
      {"argmax", position("ArgMax")},
      {"argmin", position("ArgMin")},
      {"cumsum", cumsum},
      {"order", order},
  };
}

}  // namespace booster::onnx
