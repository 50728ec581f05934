// Attention: softmax(q k^T scale + mask) v (Vaswani et al., 2017), head by head.
#include "booster/export/translations.h"

#include <limits>

namespace booster::onnx {
namespace {

using Value = Graph::Value;
using Order = std::vector<int64_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();

Value transposed(Translator& t, const Value& x, const Order& order) {
  return t.add("Transpose", {x}, {attribute("perm", order)});
}

// Returns 0, 1, ... up to the size of this dimension of x.
Value places(Translator& t, const Value& x, int64_t dim) {
  const Value size = t.add("Shape", {x}, {attribute("start", dim), attribute("end", dim + 1)});
  return t.add("Range", {t.graph().index(0), t.add("Squeeze", {size}), t.graph().index(1)});
}

// Hides key j from query i if j > i, in scores (batch, heads, queries, keys).
Value with_future_hidden(Translator& t, const Value& scores) {
  const Value query = t.add("Unsqueeze", {places(t, scores, 2), t.graph().integers({1})});
  const Value is_seen = t.add("LessOrEqual", {places(t, scores, 3), query});
  return t.add("Where", {is_seen, scores, t.graph().number(-infinity)});
}

// Translates attention. `mask` is the place of the mask among the op's arguments.
Value attention_of(Translator& t, const Value& q, const Value& k, const Value& v, size_t mask) {
  const Value query = t.add("Mul", {q, t.graph().number(t.number("scale"))});
  Value scores = t.add("MatMul", {query, transposed(t, k, {0, 1, 3, 2})});
  if (t.has(mask)) {
    const Value given = t.input(mask);
    scores = t.kind(mask) == Kind::truth
                 ? t.add("Where", {given, scores, t.graph().number(-infinity)})
                 : t.add("Add", {scores, given});
  }
  if (t.integer("causal")) scores = with_future_hidden(t, scores);
  Value shares = t.add("Softmax", {scores}, {attribute("axis", int64_t{-1})});
  if (t.has(mask)) {  // a query without keys gets zeros; softmax gives nan
    const Value top = t.add("ReduceMax", {scores},
                            {attribute("axes", Order{-1}), attribute("keepdims", int64_t{1})});
    const Value sees_none = t.add("Equal", {top, t.graph().number(-infinity)});
    shares = t.add("Where", {sees_none, t.graph().number(0), shares});
  }
  return t.add("MatMul", {shares, v});
}

void attention(Translator& t) { t.result(attention_of(t, t.input(0), t.input(1), t.input(2), 3)); }

// Translates attention from (batch, tokens, 3, heads, size) to (batch, tokens, heads size).
void attention_packed(Translator& t) {
  const Value apart = transposed(t, t.input(0), {2, 0, 3, 1, 4});
  const auto part = [&](int64_t i) {
    return t.add("Gather", {apart, t.graph().index(i)}, {attribute("axis", int64_t{0})});
  };
  const Value query = part(0), key = part(1), value = part(2);
  const Value by_token = transposed(t, attention_of(t, query, key, value, 1), {0, 2, 1, 3});
  const std::vector<Varying> packed = t.shape(0);
  t.result(t.reshaped(by_token, {packed[0], packed[1], packed[3], packed[4]}, t.result_shape()));
}

}  // namespace

std::vector<TranslationRow> attention_translations() {
  return {{"attention", attention}, {"attention_packed", attention_packed}};
}

}  // namespace booster::onnx
