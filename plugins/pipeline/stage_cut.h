// Which links of a model (core/nn/module.h) make each piece of a pipeline. Pure arithmetic.
#pragma once

#include <string>
#include <vector>

namespace booster {

// Where each piece begins, and the end: {0, 3, 5} is two pieces, of 3 and 2 links.
using StageCut = std::vector<int>;

// So many links in each piece. Error unless there are `pieces` sizes, all positive, that add up to
// the number of links.
StageCut cut_by_sizes(const std::vector<int>& sizes, int links, int pieces);

// Pieces that begin with these links, in order; the first of all may be left out. Error for a link
// that is unknown (with the nearest name), out of order, or for another number of pieces.
StageCut cut_by_names(const std::vector<std::string>& first, const std::vector<std::string>& links,
                      int pieces);

// So that the costliest piece costs as little as possible, and among such cuts the one with the
// smallest sum of squares: the others are as even as they can be. Costs are finite and not
// negative. Takes O(pieces * links^2). Error where there are more pieces than links.
StageCut cut_by_cost(const std::vector<double>& costs, int pieces);

}  // namespace booster
