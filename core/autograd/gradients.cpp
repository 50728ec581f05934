// Requests of a node to its pass: to compute a gradient later, or to add it where it belongs.
#include "core/autograd/pass.h"

namespace booster {

bool Gradients::is_last_pass() const { return pass_ && !pass_->retains_graph(); }

// Runs at once under an observer, which sees all that a node returns, and on a tape for a second
// pass, which records it then.
bool Gradients::is_done_meanwhile() const {
  return pass_ && !grad_enabled() && !current_observer() && node_.inputs()[0].node &&
         Backward::is_on_way_to_exchange(*node_.inputs()[0].node);
}

void Gradients::do_meanwhile(int i, std::function<Tensor()> gradient) {
  meanwhile_.push_back(i);
  pass_->do_meanwhile(node_, i, std::move(gradient));
}

Gradients::Place Gradients::place_of(int i) const {
  return {node_.inputs()[i], puts_off(i) ? nullptr : pass_};
}

namespace {

// Returns the leaf at the edge, also through its cast to the dtype of an op, if an f32 gradient
// would reach it unchanged and as its only one.
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

Tensor Gradients::add_at(const Place& place,
                         const std::function<Tensor(const Tensor&)>& gradient) {
  const Tensor* leaf = leaf_at(place.edge, place.pass);
  const Tensor sum = leaf ? gradient_to_add_to(*leaf) : Tensor();
  Tensor computed = gradient(sum);
  if (sum.defined() && !computed.defined()) note_added(*leaf);
  return computed;
}

void Gradients::work_meanwhile() {
  if (pass_) pass_->catch_up();
}

}  // namespace booster
