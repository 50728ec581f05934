// Einstein summation by matrix products. It multiplies operands from left to right, each pair by
// one batched product of permuted tensors.
#include "core/autograd/functions.h"
#include "core/autograd/layer_split.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/defined.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

namespace booster {
namespace {

// One letter for each dimension. An ellipsis has digits, counted from the last dimension.
using Labels = std::string;

constexpr int most_ellipsis = 10;

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

struct Term {
  Tensor x;
  Labels labels;
};

struct Equation {
  std::vector<std::string> terms;
  std::optional<std::string> result;
};

Equation parsed(const std::string& equation, size_t operands) {
  std::string text;
  for (const char c : equation)
    if (c != ' ') text += c;
  Equation parts;
  const size_t arrow = text.find("->");
  if (arrow != text.npos) parts.result = text.substr(arrow + 2);
  std::string rest = text.substr(0, arrow) + ",";
  for (size_t comma; (comma = rest.find(',')) != rest.npos; rest.erase(0, comma + 1))
    parts.terms.push_back(rest.substr(0, comma));
  check(parts.terms.size() == operands,
        "einsum: wrong number of operands; \"{}\" has {} terms; got {} operands", equation,
        parts.terms.size(), operands);
  return parts;
}

// Returns the letters of a term, its ellipsis expanded to `dots` dimensions.
Labels written_out(const std::string& term, int dots) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.compare(i, 3, "...") == 0 && term.find("...") == i) {
      for (int k = dots - 1; k >= 0; --k) labels += static_cast<char>('0' + k);
      i += 2;
      continue;
    }
    check(std::isalpha(static_cast<unsigned char>(term[i])),
          "einsum: wrong subscript in \"{}\"; got '{}', want letters and at most one ellipsis",
          term, term[i]);
    labels += term[i];
  }
  return labels;
}

// Takes the diagonal for a letter that occurs twice: elements with equal positions in both
// dimensions.
Term with_diagonals(Term term) {
  for (size_t i = 0; i < term.labels.size();) {
    const char label = term.labels[i];
    const size_t j = term.labels.find(label, i + 1);
    if (j == Labels::npos) {
      ++i;
      continue;
    }
    const auto first = static_cast<int>(i), second = static_cast<int>(j);
    check(term.x.shape()[first] == term.x.shape()[second],
          "einsum: sizes of '{}' differ; got {} and {}", label, term.x.shape()[first],
          term.x.shape()[second]);
    term.x = diagonal(term.x, first, second);
    term.labels.erase(j, 1);
    term.labels.erase(i, 1);
    term.labels += label;
  }
  return term;
}

Term term_of(const std::string& text, const Tensor& x) {
  check_defined("einsum", x);
  const bool has_dots = text.find("...") != text.npos;
  const int letters = static_cast<int>(text.size()) - (has_dots ? 3 : 0);
  const int dots = has_dots ? x.ndim() - letters : 0;
  check(dots >= 0 && dots <= most_ellipsis && letters + dots == x.ndim(),
        "einsum: \"{}\" does not match an operand of shape {}", text, x.shape());
  return with_diagonals({x, written_out(text, dots)});
}

// Returns the result without "->": the ellipsis, then all letters that occur once in the equation,
// in alphabetical order.
Labels implicit_result(const Equation& equation, const std::vector<Term>& terms) {
  std::map<char, int> counts;
  for (const std::string& term : equation.terms)
    for (const char c : term)
      if (c != '.') ++counts[c];
  Labels digits, letters;
  for (const auto& [label, count] : counts)
    if (count == 1) letters += label;
  for (const Term& term : terms)
    for (const char label : term.labels)
      if (std::isdigit(static_cast<unsigned char>(label)) && !has(digits, label)) digits += label;
  std::ranges::sort(digits, std::greater<>());
  return digits + letters;
}

Labels explicit_result(const std::string& text, const std::vector<Term>& terms) {
  int dots = 0;
  Labels known;
  for (const Term& term : terms) {
    known += term.labels;
    for (const char label : term.labels)
      if (std::isdigit(static_cast<unsigned char>(label))) dots = std::max(dots, label - '0' + 1);
  }
  const Labels result = written_out(text, dots);
  for (size_t i = 0; i < result.size(); ++i)
    check(result.find(result[i]) == i, "einsum: '{}' occurs twice in the result \"{}\"", result[i],
          text);
  for (const char label : result)
    check(has(known, label), "einsum: '{}' occurs only in the result; want a letter of a term",
          label);
  return result;
}

// Returns every label's size. A size of 1 matches any other.
std::map<char, int64_t> sizes_of(const std::vector<Term>& terms) {
  std::map<char, int64_t> sizes;
  for (const Term& term : terms)
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const int64_t size = term.x.shape()[static_cast<int>(i)];
      int64_t& known = sizes.try_emplace(term.labels[i], size).first->second;
      check(known == size || known == 1 || size == 1, "einsum: sizes of '{}' differ; got {} and {}",
            term.labels[i], known, size);
      if (known == 1) known = size;
    }
  return sizes;
}

// Returns the term with its dimensions in this order; sums over dimensions that are not in it.
Term arranged(const Term& term, const Labels& order) {
  std::vector<int64_t> summed;
  Labels left;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (has(order, term.labels[i]))
      left += term.labels[i];
    else
      summed.push_back(static_cast<int64_t>(i));
  }
  const Tensor x = summed.empty() ? term.x : sum(term.x, summed);
  std::vector<int> permutation;
  Labels labels;
  for (const char label : order)
    if (const size_t at = left.find(label); at != Labels::npos) {
      permutation.push_back(static_cast<int>(at));
      labels += label;
    }
  return {permutation.empty() ? x : permute(x, permutation), labels};
}

// Broadcasts the dimensions `alike`, which both operands share, to the larger size.
Tensor broadcast(const Term& term, const std::map<char, int64_t>& sizes, const Labels& alike) {
  Shape shape = term.x.shape();
  for (size_t i = 0; i < term.labels.size(); ++i)
    if (has(alike, term.labels[i])) shape[static_cast<int>(i)] = sizes.at(term.labels[i]);
  return expand(term.x, shape);
}

int64_t size_of_labels(const Labels& labels, const Term& term) {
  int64_t size = 1;
  for (const char label : labels) size *= term.x.shape()[static_cast<int>(term.labels.find(label))];
  return size;
}

// Returns the product of two terms, summed over labels that neither the result nor a later term has
// (`kept`).
Term product(const Term& a, const Term& b, const Labels& kept) {
  Labels batch, summed, of_a, of_b;
  for (const char label : a.labels) {
    if (has(b.labels, label))
      (has(kept, label) ? batch : summed) += label;
    else if (has(kept, label))
      of_a += label;
  }
  for (const char label : b.labels)
    if (!has(a.labels, label) && has(kept, label)) of_b += label;
  Term left = arranged(a, batch + of_a + summed), right = arranged(b, batch + summed + of_b);
  const auto sizes = sizes_of({left, right});
  left.x = broadcast(left, sizes, batch + summed);
  right.x = broadcast(right, sizes, batch + summed);
  const int64_t batches = size_of_labels(batch, left), rows = size_of_labels(of_a, left),
                inner = size_of_labels(summed, left), columns = size_of_labels(of_b, right);
  Shape shape;
  for (const char label : batch + of_a)
    shape.push_back(left.x.shape()[static_cast<int>(left.labels.find(label))]);
  for (const char label : of_b)
    shape.push_back(right.x.shape()[static_cast<int>(right.labels.find(label))]);
  const Tensor y =
      matmul(reshape(left.x, {batches, rows, inner}), reshape(right.x, {batches, inner, columns}));
  return {reshape(y, shape), batch + of_a + of_b};
}

// Returns the labels of the result and of all terms after term i.
Labels labels_behind(const std::vector<Term>& terms, size_t i, const Labels& result) {
  Labels labels = result;
  for (size_t k = i + 1; k < terms.size(); ++k) labels += terms[k].labels;
  return labels;
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  check(!operands.empty(), "einsum: want at least one operand");
  const Equation parts = parsed(equation, operands.size());
  for (const Tensor& x : operands) check_no_layer_split("einsum", x);
  std::vector<Tensor> given = operands;
  if (given.size() > 1) apply_policy(Op::einsum, given);  // a single operand needs no product
  const PolicyScope inside(nullptr);
  std::vector<Term> terms;
  for (size_t i = 0; i < given.size(); ++i) terms.push_back(term_of(parts.terms[i], given[i]));
  const Labels result =
      parts.result ? explicit_result(*parts.result, terms) : implicit_result(parts, terms);
  sizes_of(terms);
  Term y = terms[0];
  for (size_t i = 1; i < terms.size(); ++i)
    y = product(y, terms[i], labels_behind(terms, i, result));
  const Tensor sums = arranged(y, result).x;
  if (op_recorder) [[unlikely]]
    note_op("einsum", given, {sums}, {{"equation", equation}});
  return sums;
}

}  // namespace booster
