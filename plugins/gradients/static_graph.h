// StaticGraph: which parameters get gradients between two exchanges, where it is always the same
// ones, and in which order they come.
//
// Learned once, from the first exchange. The ranks agree on the order, and on the set, which is
// that of all ranks together: each may use another part of it. From then on it is only looked at
// whether this rank's part is the same, which needs no message.
#pragma once

#include "core/tensor/named_tensor.h"
#include "parallel/groups/group.h"

#include <cstdint>
#include <vector>

namespace booster {

class StaticGraph {
 public:
  // A pass begins. Gradients that were dropped since the last exchange have not been reached.
  void begin(const Parameters& parameters);
  // A pass has reached the parameter.
  void reach(int64_t parameter);

  bool has_reached() const { return !reached_.empty(); }
  bool is_known() const { return known_; }
  // What was reached since the last exchange is the graph. All ranks call it.
  void learn(const Parameters& parameters, const Group& group);
  // Parameters that some rank uses, about as they come.
  const std::vector<int64_t>& order() const { return order_; }
  // By parameter: this rank uses it.
  const std::vector<bool>& used_here() const { return used_here_; }
  bool is_used_here(int64_t parameter) const {
    return parameter < static_cast<int64_t>(used_here_.size()) && used_here_[parameter];
  }
  // The gradients were exchanged. Error that names a parameter if what was reached since the last
  // time is not the graph.
  void end_exchange(const Parameters& parameters);

 private:
  std::vector<int64_t> reached_;   // since the last exchange, in order
  std::vector<bool> is_reached_;   // the same, by parameter
  bool known_ = false;
  std::vector<int64_t> order_;
  std::vector<bool> used_here_;
};

}  // namespace booster
