// Axes: the ranks of a world along named axes, as pure arithmetic; parallel/mesh.h adds the groups.
//
// Row-major: the last axis varies fastest, as in torch's init_device_mesh. The names are those of
// Layout's fields: data, pipeline, sequence, tensor. A plain value; thread-safe.
#pragma once

#include "parallel/layout.h"

#include <string>
#include <vector>

namespace booster {

struct Axis {
  std::string name;
  int size;  // -1, for one axis of a list: what the others leave
};

// The axes of a layout, those of size 1 included: data outermost, then pipeline, sequence, tensor,
// so that ranks of one tensor group, which talk most, lie side by side.
std::vector<Axis> axes_of(const Layout& layout);

class Axes {
 public:
  // One rank, no axis.
  Axes() = default;
  // The product of the sizes must be `ranks`. Error for that, which lists sizes that would fit, for
  // a size below 1, and for a name that is unknown or comes twice.
  Axes(int ranks, std::vector<Axis> axes);

  int ranks() const { return ranks_; }
  // In the order of nesting, without -1.
  const std::vector<Axis>& list() const { return axes_; }

  // Of an axis that is not in the list the size is 1 and every place 0. Here and below: error for
  // an unknown name, and for a rank that is not from 0 to ranks() - 1.
  int size(const std::string& axis) const;
  int place(int rank, const std::string& axis) const;
  // The ranks whose place differs from this one's only along `axes`, in ascending order. Error for
  // a name that comes twice.
  std::vector<int> ranks_along(int rank, const std::vector<std::string>& axes) const;

  // "data 1, tensor 0": the places along axes of more than one rank; "" if there are none.
  std::string describe(int rank) const;
  Layout layout() const;

 private:
  void check_rank(int rank) const;
  // Ranks from one place along the axis to the next.
  int stride(const std::string& axis) const;

  int ranks_ = 1;
  std::vector<Axis> axes_;
};

}  // namespace booster
