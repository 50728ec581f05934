// StaticGraph: the set and the order of the parameters that get gradients between two exchanges,
// for a model in which both never change.
//
// It learns both at the first exchange. The ranks agree on the order and on the union of their
// sets; each rank may use a different part of it. Later exchanges only check that this rank's part
// is unchanged, which needs no message.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"

#include <cstdint>
#include <vector>

namespace booster {

class StaticGraph {
 public:
  // Begins a pass. Gradients dropped since the last exchange count as not reached.
  void begin(const Parameters& parameters);
  // Records that a pass has reached the parameter.
  void reach(int64_t parameter);

  bool has_reached() const { return !reached_.empty(); }
  bool is_known() const { return known_; }
  // Makes the parameters reached since the last exchange the graph. All ranks call it.
  void learn(const Parameters& parameters, const Group& group);
  // Returns the parameters that any rank uses, roughly in the order of their gradients.
  const std::vector<int64_t>& order() const { return order_; }
  // Returns for each parameter whether this rank uses it.
  const std::vector<bool>& used_here() const { return used_here_; }
  bool is_used_here(int64_t parameter) const {
    return parameter < static_cast<int64_t>(used_here_.size()) && used_here_[parameter];
  }
  // Ends an exchange. Throws, and names a parameter, if the parameters reached since the last
  // exchange differ from the graph.
  void end_exchange(const Parameters& parameters);

 private:
  std::vector<int64_t> reached_;   // since the last exchange, in order
  std::vector<bool> is_reached_;   // the same, by parameter
  bool known_ = false;
  std::vector<int64_t> order_;
  std::vector<bool> used_here_;
};

}  // namespace booster
