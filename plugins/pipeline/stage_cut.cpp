#include "plugins/pipeline/stage_cut.h"

#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace booster {
namespace {

void check_pieces(int links, int pieces) {
  check(pieces >= 1, "pipeline: want at least one stage; got {}", pieces);
  check(pieces <= links,
        "pipeline: the model has {} link{}, and each stage needs one; got {} stages and chunks, "
        "want at most {}",
        links, links == 1 ? "" : "s", pieces, links);
}

constexpr double impossible = std::numeric_limits<double>::infinity();

// Returns the best joined value of a cut of all links. `value` rates a piece that begins at one
// link and ends before another; `join` combines two values, smaller is better. Sets `cut` to where
// pieces begin.
double best_cut(int links, int pieces, const std::function<double(int, int)>& value,
                const std::function<double(double, double)>& join, StageCut* cut) {
  const auto ends = static_cast<size_t>(links + 1);
  // best[k][end]: the best value of the first k pieces if they end before link `end`.
  std::vector<std::vector<double>> best(static_cast<size_t>(pieces + 1),
                                        std::vector<double>(ends, impossible));
  std::vector<std::vector<int>> begins(static_cast<size_t>(pieces + 1), std::vector<int>(ends));
  best[0][0] = 0;
  for (size_t k = 1; k <= static_cast<size_t>(pieces); ++k)
    for (size_t end = k; end < ends; ++end)
      for (size_t begin = k - 1; begin < end; ++begin) {
        const int b = static_cast<int>(begin), e = static_cast<int>(end);
        const double joined = join(best[k - 1][begin], value(b, e));
        if (joined >= best[k][end]) continue;
        best[k][end] = joined;
        begins[k][end] = b;
      }
  if (cut) {
    cut->assign(static_cast<size_t>(pieces + 1), links);
    for (size_t k = static_cast<size_t>(pieces); k > 0; --k)
      (*cut)[k - 1] = begins[k][static_cast<size_t>((*cut)[k])];
  }
  return best.back().back();
}

}  // namespace

StageCut cut_by_sizes(const std::vector<int>& sizes, int links, int pieces) {
  check_pieces(links, pieces);
  const bool positive = std::ranges::all_of(sizes, [](int size) { return size > 0; });
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  check(static_cast<int>(sizes.size()) == pieces && positive && sum == links,
        "pipeline: the stages' numbers of links do not match the model; got [{}], want {} positive "
        "numbers "
        "that add up to {}",
        fmt::join(sizes, ", "), pieces, links);
  StageCut cut = {0};
  for (const int size : sizes) cut.push_back(cut.back() + size);
  return cut;
}

StageCut cut_by_names(const std::vector<std::string>& first, const std::vector<std::string>& links,
                      int pieces) {
  check_pieces(static_cast<int>(links.size()), pieces);
  StageCut cut = {0};
  for (const std::string& name : first) {
    const auto found = std::ranges::find(links, name);
    if (found == links.end())
      fail("pipeline: the model has no such link; got {}{}", name, legal_names(name, links));
    const int at = static_cast<int>(found - links.begin());
    if (at == 0 && cut.size() == 1 && &name == &first[0]) continue;
    check(at > cut.back(), "pipeline: first links of stages are out of order; got {} after {}",
          name, links[static_cast<size_t>(cut.back())]);
    cut.push_back(at);
  }
  check(
      static_cast<int>(cut.size()) == pieces,
      "pipeline: wrong number of first links; got {} ([{}]), want {}, one for each stage and chunk",
      cut.size(), fmt::join(first, ", "), pieces);
  cut.push_back(static_cast<int>(links.size()));
  return cut;
}

StageCut cut_by_cost(const std::vector<double>& costs, int pieces) {
  const int links = static_cast<int>(costs.size());
  check_pieces(links, pieces);
  std::vector<double> before = {0};
  for (const double cost : costs) {
    check(std::isfinite(cost) && cost >= 0,
          "pipeline: the cost of a link is out of range; got {}, want a number >= 0", cost);
    before.push_back(before.back() + cost);
  }
  check(std::isfinite(before.back()), "pipeline: the links' costs add up to infinity");
  const auto sum = [&](int begin, int end) {
    return before[static_cast<size_t>(end)] - before[static_cast<size_t>(begin)];
  };
  const auto larger = [](double a, double b) { return std::max(a, b); };
  const double largest = best_cut(links, pieces, sum, larger, nullptr);
  StageCut cut;
  const auto square = [&](int begin, int end) {
    const double cost = sum(begin, end), share = largest > 0 ? cost / largest : 0;
    return cost <= largest ? share * share : impossible;
  };
  best_cut(links, pieces, square, std::plus<>(), &cut);
  return cut;
}

}  // namespace booster
