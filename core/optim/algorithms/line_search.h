// A line search along a direction for the strong Wolfe conditions.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>

namespace booster {

// The loss and its gradient (n) at a point of the line, and their slope along it.
struct LinePoint {
  double t = 0, loss = 0;
  Tensor gradient = {};
  double slope = 0;
};

struct LineSearchLimits {
  int64_t evaluations = 25;
  double tolerance_change = 1e-9;  // of t times the direction's largest element
  double direction_size = 1;       // this element's magnitude
};

struct LineSearchResult {
  LinePoint point;
  int64_t evaluations;
};

// Returns a point with loss(t) <= loss(0) + 1e-4 t slope(0) and |slope(t)| <= 0.9 |slope(0)|, or
// the lowest one found within the limits. It brackets such a point from `first_t` on, then narrows
// the bracket by cubic interpolation (Nocedal and Wright, Numerical Optimization, algorithms 3.5
// and 3.6, with the safeguards of Schmidt's minFunc, as in PyTorch).
LineSearchResult strong_wolfe(const std::function<LinePoint(double t)>& evaluate,
                              const LinePoint& start, double first_t,
                              const LineSearchLimits& limits);

}  // namespace booster
