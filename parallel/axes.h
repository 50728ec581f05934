// Axes: a world's ranks along named axes, as pure arithmetic; parallel/mesh.h adds the groups.
//
// Row-major: the last axis varies fastest, as in torch's init_device_mesh. The names are Layout's
// fields: data, pipeline, sequence, tensor. A plain value; thread-safe.
#pragma once

#include "parallel/layout.h"

#include <string>
#include <vector>

namespace booster {

struct Axis {
  std::string name;
  int size;  // -1, for one axis of a list: what the other sizes leave
};

// Returns a layout's axes, including axes of size 1: data outermost, then pipeline, sequence,
// tensor. Ranks of one tensor group, which communicate most, are thus adjacent.
std::vector<Axis> axes_of(const Layout& layout);

class Axes {
 public:
  // One rank, no axis.
  Axes() = default;
  // The product of the sizes must be `ranks`; otherwise it throws and lists sizes that fit. It also
  // throws for a size below 1, and for an unknown or repeated name.
  Axes(int ranks, std::vector<Axis> axes);

  int ranks() const { return ranks_; }
  // In nesting order, with -1 replaced.
  const std::vector<Axis>& list() const { return axes_; }

  // An axis that is not in the list has size 1, and every place on it is 0. These and the following
  // functions throw for an unknown name, and for a rank outside 0 to ranks() - 1.
  int size(const std::string& axis) const;
  int place(int rank, const std::string& axis) const;
  // Returns the ranks whose place differs from this rank's only along `axes`, in ascending order.
  // Throws for a repeated name.
  std::vector<int> ranks_along(int rank, const std::vector<std::string>& axes) const;

  // Returns "data 1, tensor 0": the places along axes of more than one rank; "" if there are none.
  std::string describe(int rank) const;
  Layout layout() const;

 private:
  void check_rank(int rank) const;
  // The difference of ranks between adjacent places along the axis.
  int stride(const std::string& axis) const;

  int ranks_ = 1;
  std::vector<Axis> axes_;
};

}  // namespace booster
