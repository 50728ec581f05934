#include "core/autograd/gradient_keeper.h"

#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tracking.h"

#include <utility>

namespace booster {
namespace {
thread_local bool in_scope = false;
}  // namespace

GradientKeeper::GradientKeeper(std::string name, const std::vector<Tensor>& leaves)
    : name_(std::move(name)) {
  keep(leaves);
}

void GradientKeeper::keep(const std::vector<Tensor>& leaves) {
  for (const Tensor& leaf : leaves) {
    TapeState& state = ensure_tape_state(leaf);
    if (state.keeper) continue;
    state.keeper = this;
    leaves_.push_back(leaf);
  }
}

GradientKeeper::~GradientKeeper() {
  for (const Tensor& leaf : leaves_) {
    tape_state(leaf)->keeper = nullptr;
    clear_grad(leaf);
  }
}

GradientKeeper::Scope::Scope() : before_(std::exchange(in_scope, true)) {}
GradientKeeper::Scope::~Scope() { in_scope = before_; }

Tensor kept_grad(const GradientKeeper& keeper, const Tensor& leaf, const Tensor& in_memory) {
  return in_scope || !keeper.reader_ ? in_memory : keeper.reader_(leaf, in_memory);
}

const GradientKeeper* keeper_of(const Tensor& x) {
  if (in_scope || !x.defined()) return nullptr;
  const TapeState* state = tape_state(x);
  return state ? state->keeper : nullptr;
}

void check_not_kept(const char* call, const Tensor& leaf, const char* instead) {
  if (const GradientKeeper* keeper = keeper_of(leaf)) [[unlikely]]
    fail(
        "{}: the gradients belong to a boosted training ({}) and may be scaled or local to this "
        "rank; want {} of the boosted optimizer",
        call, keeper->name(), instead);
}

std::string boosted_hint(const Tensor& x) {
  const GradientKeeper* keeper = keeper_of(x);
  if (!keeper) return "";
  return ": the model was boosted (" + keeper->name() +
         "); want a call of boosted.model, not of the model";
}

}  // namespace booster
