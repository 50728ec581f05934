#include "platform/error.h"

#include "platform/warn.h"

#include <algorithm>

namespace booster {

// Errors quote file names and other text from outside, and appear on terminals and in logs.
void raise(ErrorKind kind, std::string text) { throw Error(terminal_lines(text), kind); }

namespace {

// Optimal string alignment distance: insertions, deletions, substitutions, swapped neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitute});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

constexpr size_t longest_name = 256;  // bounds the cost of a hostile name

}  // namespace

std::string nearest_name(std::string_view got, const std::vector<std::string>& legal) {
  if (got.size() > longest_name) return "";
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const auto& name : legal) {
    const size_t distance = edit_distance(got, name);
    const size_t near = std::max<size_t>(1, std::max(name.size(), got.size()) / 3);
    if (distance <= near && distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string legal_names(std::string_view got, const std::vector<std::string>& legal) {
  std::string text = "; want one of ";
  for (size_t i = 0; i < legal.size(); ++i) text += (i ? ", " : "") + legal[i];
  const std::string near = nearest_name(got, legal);
  if (!near.empty()) text += " (did you mean " + near + "?)";
  return text;
}

}  // namespace booster
