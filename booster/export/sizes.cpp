#include "booster/export/sizes.h"

#include <algorithm>

namespace booster::onnx {
namespace {

struct Line {
  int64_t factor, added;
};

// Returns a and c such that numbers = a from + c, with a other than 0.
std::optional<Line> line_through(const Varying& from, const Varying& numbers) {
  const auto other = std::ranges::find_if(from, [&](int64_t size) { return size != from[0]; });
  if (other == from.end()) return {};
  const size_t i = static_cast<size_t>(other - from.begin());
  const int64_t run = from[i] - from[0], rise = numbers[i] - numbers[0];
  if (rise == 0 || rise % run != 0) return {};
  const Line line = {rise / run, numbers[0] - rise / run * from[0]};
  for (size_t k = 0; k < from.size(); ++k)
    if (numbers[k] != line.factor * from[k] + line.added) return {};
  return line;
}

// Returns the whole number c with numbers c = from, or 0.
int64_t divisor_of(const Varying& from, const Varying& numbers) {
  if (numbers[0] <= 0 || from[0] % numbers[0] != 0) return 0;
  const int64_t divisor = from[0] / numbers[0];
  for (size_t k = 0; k < from.size(); ++k)
    if (numbers[k] * divisor != from[k]) return 0;
  return divisor;
}

Varying product(const Varying& a, const Varying& b) {
  Varying products = a;
  for (size_t k = 0; k < a.size(); ++k) products[k] *= b[k];
  return products;
}

}  // namespace

bool is_constant(const Varying& numbers) {
  return std::ranges::all_of(numbers, [&](int64_t n) { return n == numbers[0]; });
}

Varying Sizes::size(int value, int dim) const {
  Varying sizes;
  for (const Trace& trace : traces_) sizes.push_back(trace.values[value].shape[dim]);
  return sizes;
}

std::vector<Varying> Sizes::shape(int value) const {
  std::vector<Varying> sizes;
  for (int dim = 0; dim < traces_[0].values[value].shape.ndim(); ++dim)
    sizes.push_back(size(value, dim));
  return sizes;
}

void Sizes::know(int value, const Graph::Value& name) {
  const std::vector<Varying> sizes = shape(value);
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    if (!is_constant(sizes[dim]) && std::ranges::count(sources_, sizes[dim], &Source::numbers) == 0)
      sources_.push_back({sizes[dim], name, static_cast<int>(dim)});
}

std::optional<Graph::Value> Sizes::find(const Varying& numbers) {
  if (is_constant(numbers)) return graph_.integers({numbers[0]});
  const auto found = found_.find(numbers);
  if (found != found_.end()) return found->second;
  const std::optional<Graph::Value> value = computed(numbers);
  if (value) found_.emplace(numbers, *value);
  return value;
}

Graph::Value Sizes::of(const Source& source) {
  return graph_.add(
      "Shape", {source.value},
      {attribute("start", int64_t{source.dim}), attribute("end", int64_t{source.dim} + 1)});
}

Graph::Value Sizes::affine(const Graph::Value& size, int64_t factor, int64_t added) {
  Graph::Value value = size;
  if (factor != 1) value = graph_.add("Mul", {value, graph_.integers({factor})});
  return added == 0 ? value : graph_.add("Add", {value, graph_.integers({added})});
}

// Returns the computed size; tries the simplest form first.
std::optional<Graph::Value> Sizes::computed(const Varying& numbers) {
  for (const Source& s : sources_)
    if (s.numbers == numbers) return of(s);
  for (const Source& s : sources_)
    if (const auto line = line_through(s.numbers, numbers))
      return affine(of(s), line->factor, line->added);
  for (const Source& s : sources_)
    if (const int64_t divisor = divisor_of(s.numbers, numbers); divisor > 0)
      return graph_.add("Div", {of(s), graph_.integers({divisor})});
  for (const Source& s : sources_)
    for (const Source& t : sources_)
      if (const auto line = line_through(product(s.numbers, t.numbers), numbers))
        return affine(graph_.add("Mul", {of(s), of(t)}), line->factor, line->added);
  return {};
}

}  // namespace booster::onnx
