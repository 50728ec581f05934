#include "parallel/mesh.h"

#include "platform/error.h"

#include <algorithm>

namespace booster {

namespace {

// All axes, in nesting order.
struct Field {
  const char* name;
  int Layout::*size;
};
constexpr Field fields[] = {{"data", &Layout::data},
                            {"pipeline", &Layout::pipeline},
                            {"sequence", &Layout::sequence},
                            {"tensor", &Layout::tensor}};

void check_name(const std::string& name) {
  std::vector<std::string> legal;
  for (const Field& field : fields) legal.push_back(field.name);
  check(std::find(legal.begin(), legal.end(), name) != legal.end(),
        "Mesh: no such axis; got '{}'{}", name, legal_names(name, legal));
}

void check_once(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    check_name(name);
    check(std::count(names.begin(), names.end(), name) == 1,
          "Mesh: axis {} occurs twice; want each axis once", name);
  }
}

// Returns "data 2 x tensor 3".
std::string text_of(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
  return text.empty() ? "no axis" : text;
}

// Returns a double, so that no product of sizes overflows; it is exact for any real number of
// ranks.
double product_of(const std::vector<Axis>& axes) {
  double product = 1;
  for (const Axis& axis : axes) product *= axis.size;
  return product;
}

// Returns the axis's size that fits, the others being fixed; 0 if none does.
int fitting_size(int ranks, std::vector<Axis> axes, size_t at) {
  axes[at].size = 1;
  const double others = product_of(axes);
  if (others > ranks || ranks % static_cast<int>(others) != 0) return 0;
  return ranks / static_cast<int>(others);
}

// Returns the axes that fit with one size changed; if there are none, the possible sizes.
std::string fitting_sizes(int ranks, const std::vector<Axis>& axes) {
  std::string text;
  for (size_t at = 0; at < axes.size(); ++at) {
    auto changed = axes;
    changed[at].size = fitting_size(ranks, axes, at);
    if (changed[at].size > 0) text += (text.empty() ? "" : ", or ") + text_of(changed);
  }
  if (!text.empty()) return text;
  for (int size = 1; size <= ranks; ++size)
    if (ranks % size == 0) text += fmt::format("{}{}", text.empty() ? "sizes of " : ", ", size);
  return text;
}

// Replaces -1 by the size that fits.
std::vector<Axis> completed(int ranks, const std::vector<Axis>& axes) {
  const auto is_open = [](const Axis& axis) { return axis.size == -1; };
  for (const Axis& axis : axes)
    check(axis.size >= 1 || is_open(axis),
          "Mesh: an axis is too small; got {} {}, want at least 1, or -1 for the ranks that the "
          "others leave",
          axis.name, axis.size);
  const auto open = std::find_if(axes.begin(), axes.end(), is_open);
  if (open == axes.end()) return axes;
  check(std::count_if(axes.begin(), axes.end(), is_open) == 1,
        "Mesh: more than one size is -1; got {}, want at most one", text_of(axes));
  auto result = axes;
  const size_t at = open - axes.begin();
  result[at].size = fitting_size(ranks, axes, at);
  if (result[at].size > 0) return result;
  result[at].size = 1;
  auto given = axes;
  given.erase(given.begin() + static_cast<std::ptrdiff_t>(at));
  fail(
      "Mesh: the sizes of the axes do not divide the number of ranks; got {} for {} ranks, want {}",
      text_of(given), ranks, fitting_sizes(ranks, result));
}

}  // namespace

std::vector<Axis> axes_of(const Layout& layout) {
  std::vector<Axis> axes;
  for (const Field& field : fields) axes.push_back({field.name, layout.*field.size});
  return axes;
}

Axes::Axes(int ranks, std::vector<Axis> axes) : ranks_(ranks) {
  check(ranks >= 1, "Mesh: want at least one rank; got {}", ranks);
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  check_once(names);
  axes_ = completed(ranks, axes);
  check(product_of(axes_) == ranks,
        "Mesh: the product of the axes is not the number of ranks; got {} = {:.0f} ranks, want {}: "
        "{}",
        text_of(axes_), product_of(axes_), ranks, fitting_sizes(ranks, axes_));
}

int Axes::size(const std::string& axis) const {
  check_name(axis);
  for (const Axis& known : axes_)
    if (known.name == axis) return known.size;
  return 1;
}

int Axes::stride(const std::string& axis) const {
  int stride = ranks_;
  for (const Axis& known : axes_) {
    stride /= known.size;
    if (known.name == axis) return stride;
  }
  return 1;
}

void Axes::check_rank(int rank) const {
  check(rank >= 0 && rank < ranks_, "Mesh: no such rank; got {}, want 0 to {}", rank, ranks_ - 1);
}

int Axes::place(int rank, const std::string& axis) const {
  check_rank(rank);
  return rank / stride(axis) % size(axis);
}

std::vector<int> Axes::ranks_along(int rank, const std::vector<std::string>& axes) const {
  check_rank(rank);
  check_once(axes);
  int first = rank;
  for (const auto& axis : axes) first -= place(rank, axis) * stride(axis);
  std::vector<int> found = {first};
  for (const auto& axis : axes) {
    const std::vector<int> before = found;
    for (int step = 1; step < size(axis); ++step)
      for (int other : before) found.push_back(other + step * stride(axis));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string Axes::describe(int rank) const {
  check_rank(rank);
  std::string text;
  for (const Axis& axis : axes_)
    if (axis.size > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name, place(rank, axis.name));
  return text;
}

Layout Axes::layout() const {
  Layout layout;
  for (const Field& field : fields) layout.*field.size = size(field.name);
  return layout;
}

}  // namespace booster
