#include "plugins/gradients/static_graph.h"

#include "platform/error.h"

#include <algorithm>
#include <utility>

namespace booster {

void StaticGraph::begin(const Parameters& parameters) {
  is_reached_.resize(parameters.size());
  const auto was_dropped = [&](int64_t i) { return !parameters[i].tensor.grad().defined(); };
  std::erase_if(reached_, was_dropped);
  for (size_t i = 0; i < is_reached_.size(); ++i)
    if (is_reached_[i] && was_dropped(static_cast<int64_t>(i))) is_reached_[i] = false;
}

void StaticGraph::reach(int64_t parameter) {
  if (is_reached_[parameter]) return;
  is_reached_[parameter] = true;
  reached_.push_back(parameter);
}

// Takes each parameter's earliest place on any rank. One message gives all ranks the order, and the
// parameters without a place on any rank.
void StaticGraph::learn(const Parameters& parameters, const Group& group) {
  const auto count = static_cast<int64_t>(parameters.size());
  std::vector<int64_t> places(parameters.size(), count);
  for (size_t at = 0; at < reached_.size(); ++at) places[reached_[at]] = static_cast<int64_t>(at);
  group.all_reduce(places, CollectiveOp::min);
  for (int64_t i = 0; i < count; ++i)
    if (places[i] < count) order_.push_back(i);
  std::ranges::stable_sort(order_, {}, [&](int64_t i) { return places[i]; });
  used_here_ = is_reached_;
  known_ = true;
}

void StaticGraph::end_exchange(const Parameters& parameters) {
  reached_.clear();
  const std::vector<bool> here = std::exchange(is_reached_, std::vector<bool>(parameters.size()));
  for (size_t i = 0; i < here.size(); ++i) {
    if (here[i] == is_used_here(static_cast<int64_t>(i))) continue;
    fail(
        "torch_ddp: static_graph: {} got {} gradient in this step, but {} in the first; want "
        "the same parameters in every step, or find_unused_parameters = true instead",
        parameters[i].name, here[i] ? "a" : "no", here[i] ? "none" : "one");
  }
}

}  // namespace booster
