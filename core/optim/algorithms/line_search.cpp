#include "core/optim/algorithms/line_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace booster {
namespace {

constexpr double decrease = 1e-4, curvature = 0.9;

// Returns the minimum, within bounds, of the cubic through two points with their slopes; the middle
// if it has none. Nocedal and Wright, equation (3.59).
double cubic_minimum(const LinePoint& one, const LinePoint& two, double low, double high) {
  const LinePoint &a = one.t <= two.t ? one : two, &b = one.t <= two.t ? two : one;
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2));
  return std::min(std::max(t, low), high);
}

double cubic_minimum(const LinePoint& a, const LinePoint& b) {
  return cubic_minimum(a, b, std::min(a.t, b.t), std::max(a.t, b.t));
}

class Search {
 public:
  Search(const std::function<LinePoint(double)>& evaluate, const LinePoint& start,
         const LineSearchLimits& limits)
      : evaluate_(evaluate), start_(start), limits_(limits) {}

  LineSearchResult run(double first_t) {
    bracket(first_t);
    narrow();
    return {low_, evaluations_};
  }

 private:
  LinePoint at(double t) {
    ++evaluations_;
    return evaluate_(t);
  }
  bool is_too_high(const LinePoint& x) const {
    return x.loss > start_.loss + decrease * x.t * start_.slope;
  }
  bool is_flat(const LinePoint& x) const { return std::abs(x.slope) <= -curvature * start_.slope; }
  void keep(LinePoint a, LinePoint b) {
    if (a.loss > b.loss) std::swap(a, b);
    low_ = std::move(a);
    high_ = std::move(b);
  }

  // Moves outwards until a minimum lies between two points.
  void bracket(double first_t) {
    LinePoint before = start_, now = at(first_t);
    for (; steps_ < limits_.evaluations; ++steps_) {
      if (is_too_high(now) || (steps_ > 1 && now.loss >= before.loss)) return keep(before, now);
      if (is_flat(now)) {
        low_ = now;
        done_ = true;
        return;
      }
      if (now.slope >= 0) return keep(before, now);
      const double t = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
      before = std::exchange(now, at(t));
    }
    keep(start_, now);
  }

  // Narrows the bracket until a point fulfils both conditions.
  void narrow() {
    bool was_near_end = false;
    for (; !done_ && steps_ < limits_.evaluations; ++steps_) {
      const double width = std::abs(high_.t - low_.t);
      if (width * limits_.direction_size < limits_.tolerance_change) return;
      const double t = away_from_ends(cubic_minimum(low_, high_), was_near_end);
      take(at(t));
    }
  }

  // Returns t, or a tenth of the bracket's width from its end if t is near that end for the second
  // time, or on it.
  double away_from_ends(double t, bool& was_near_end) const {
    const auto [left, right] = std::minmax(low_.t, high_.t);
    const double margin = 0.1 * (right - left);
    const bool is_near = std::min(right - t, t - left) < margin;
    const bool moves = is_near && (was_near_end || t >= right || t <= left);
    was_near_end = is_near && !moves;
    if (!moves) return t;
    return std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
  }

  void take(LinePoint x) {
    if (is_too_high(x) || x.loss >= low_.loss) return keep(std::move(low_), std::move(x));
    done_ = is_flat(x);
    if (!done_ && x.slope * (high_.t - low_.t) >= 0) high_ = low_;
    low_ = std::move(x);
  }

  const std::function<LinePoint(double)>& evaluate_;
  const LinePoint& start_;
  const LineSearchLimits& limits_;
  LinePoint low_, high_;
  int64_t steps_ = 0, evaluations_ = 0;
  bool done_ = false;
};

}  // namespace

LineSearchResult strong_wolfe(const std::function<LinePoint(double t)>& evaluate,
                              const LinePoint& start, double first_t,
                              const LineSearchLimits& limits) {
  return Search(evaluate, start, limits).run(first_t);
}

}  // namespace booster
