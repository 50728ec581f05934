// Requests of a node to its pass: to compute a gradient later, or to add it to the leaf's.
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/pass.h"

namespace booster {

bool Gradients::is_last_pass() const { return pass_ && !pass_->retains_graph(); }

// Returns true if the gradient must be computed now. An observer must see all results of a node,
// and a second pass must record them.
bool GradientSchedule::is_done_meanwhile() const {
  return d_.pass_ && !grad_enabled() && !current_observer() && d_.node_.inputs()[0].node &&
         Backward::is_on_way_to_exchange(*d_.node_.inputs()[0].node);
}

void GradientSchedule::do_meanwhile(int i, std::function<Tensor()> gradient) {
  d_.meanwhile_.push_back(i);
  d_.pass_->do_meanwhile(d_.node_, i, std::move(gradient));
}

GradientSchedule::Place GradientSchedule::place_of(int i) const {
  return {d_.node_.inputs()[i], puts_off(i) ? nullptr : d_.pass_};
}

namespace {

// Returns the leaf at the edge, also through its cast to the dtype of an op. Only if the leaf would
// get a single, unchanged f32 gradient.
const Tensor* leaf_at(const Edge& edge, const Backward* pass) {
  const auto is_alone = [&](const Node& node) { return !pass || pass->is_only_use(node); };
  const Node* node = edge.node.get();
  if (node->only_casts()) {
    if (node->has_output_hooks() || !is_alone(*node)) return nullptr;
    node = node->inputs()[0].node.get();
  }
  return node->leaf() && is_alone(*node) ? node->leaf() : nullptr;
}

}  // namespace

Tensor GradientSchedule::add_at(const Place& place,
                                const std::function<Tensor(const Tensor&)>& gradient) {
  const Tensor* leaf = leaf_at(place.edge, place.pass);
  const Tensor sum = leaf ? gradient_to_add_to(*leaf) : Tensor();
  Tensor computed = gradient(sum);
  if (sum.defined() && !computed.defined()) note_added(*leaf);
  return computed;
}

void GradientSchedule::work_meanwhile() {
  if (d_.pass_) d_.pass_->catch_up();
}

}  // namespace booster
