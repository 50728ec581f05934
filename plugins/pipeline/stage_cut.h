// Assigns the links of a model (core/nn/module.h) to pieces of a pipeline. Pure arithmetic.
#pragma once

#include <string>
#include <vector>

namespace booster {

// Where each piece begins, and the end: {0, 3, 5} is two pieces, of 3 and 2 links.
using StageCut = std::vector<int>;

// Gives each piece that many links. Throws unless there are `pieces` sizes, all positive, that add
// up to the number of links.
StageCut cut_by_sizes(const std::vector<int>& sizes, int links, int pieces);

// Begins pieces at these links, in order; the model's first link may be left out. Throws for an
// unknown link (with the nearest name), for links out of order, and for a wrong number of pieces.
StageCut cut_by_names(const std::vector<std::string>& first, const std::vector<std::string>& links,
                      int pieces);

// Makes the most expensive piece as cheap as possible. Among such cuts it takes the most even one,
// by the sum of squares. Costs are finite and not negative. Takes O(pieces * links^2). Throws if
// there are more pieces than links.
StageCut cut_by_cost(const std::vector<double>& costs, int pieces);

}  // namespace booster
