#include "core/autograd/tracking.h"

#include "core/autograd/gradient_keeper.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/overwrite.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string_view>
#include <utility>

namespace booster {

TapeState* tape_state(const Tensor& x) {
  check(x.defined(), "autograd: tensor is undefined");
  return static_cast<TapeState*>(x.body()->tracking.get());
}

TapeState& ensure_tape_state(const Tensor& x) {
  check(x.defined(), "autograd: tensor is undefined");
  if (!x.body()->tracking) x.body()->tracking = std::make_unique<TapeState>();
  return *tape_state(x);
}

namespace {

std::atomic<bool> some_are_split = false;  // in this process, at any time

// Returns true for an operation whose result holds its argument's values.
bool only_rearranges(const Node& node) {
  constexpr std::string_view names[] = {"permute",   "transpose", "to",         "cast",
                                        "reshape",   "expand",    "narrow",     "select",
                                        "unsqueeze", "squeeze",   "contiguous", "clone"};
  return node.inputs().size() == 1 &&
         std::ranges::find(names, std::string_view(node.name())) != std::end(names);
}

}  // namespace

void set_layer_split(const Tensor& weight, std::shared_ptr<const LayerSplit> split) {
  some_are_split = some_are_split || split;
  ensure_tape_state(weight).split = std::move(split);
}

void check_no_layer_split(const char* call, const Tensor& x) {
  if (!some_are_split.load(std::memory_order_relaxed) || !x.defined()) return;
  const LayerSplit* split = layer_split(x);
  if (!split && !x.is_leaf()) {
    const Node* node = edge_of(x).node.get();
    while (node && only_rearranges(*node)) node = node->inputs()[0].node.get();
    if (node && node->leaf()) split = layer_split(*node->leaf());
  }
  check(!split,
        "{}: an argument is a weight of which each rank has a part; got a part of shape {}, want "
        "linear(x, weight), which exchanges parts, or a tensor plan without this layer",
        call, x.shape());
}

const LayerSplit* layer_split(const Tensor& weight) {
  const TapeState* state = tape_state(weight);
  return state ? state->split.get() : nullptr;
}

std::shared_ptr<const LayerSplit> shared_layer_split(const Tensor& weight) {
  const TapeState* state = tape_state(weight);
  return state ? state->split : nullptr;
}

Edge edge_of(const Tensor& x) {
  TapeState* state = x.defined() ? tape_state(x) : nullptr;
  if (!state || !state->requires_grad) return {};
  if (state->node) return {state->node, state->output};
  if (state->accumulator) return {Reference<Node>(state->accumulator), 0};
  Reference<Node> node(new AccumulateGrad(x));
  state->accumulator = node.get();
  return {node, 0};
}

Tensor& Tensor::requires_grad_(bool requires_grad) {
  check(defined(), "requires_grad_: tensor is undefined");
  check(!requires_grad || is_floating(dtype()),
        "requires_grad_: only floating tensors have gradients; got {}", name_of(dtype()));
  check(is_leaf(), "requires_grad_: the tensor is not a leaf; use detach()");
  if (requires_grad || body_->tracking) ensure_tape_state(*this).requires_grad = requires_grad;
  return *this;
}

bool Tensor::is_leaf() const {
  check(defined(), "is_leaf: tensor is undefined");
  const TapeState* state = tape_state(*this);
  return !state || state->is_leaf();
}

Tensor Tensor::grad() const {
  check(defined(), "grad: tensor is undefined");
  const TapeState* state = tape_state(*this);
  if (!state) return {};
  return state->keeper ? kept_grad(*state->keeper, *this, state->grad) : state->grad;
}

namespace {
bool fits_as_grad(const Tensor& grad, const Tensor& x) {
  const bool is_wider = is_16_bit(x.dtype()) && grad.dtype() == DType::f32;
  return (grad.dtype() == x.dtype() || is_wider) && grad.device() == x.device();
}
}  // namespace

void Tensor::set_grad(Tensor grad) const {
  check(defined(), "set_grad: tensor is undefined");
  if (grad.defined())
    check(grad.shape() == shape() && fits_as_grad(grad, *this),
          "set_grad: does not match the tensor; got {} {}, want {} {}", name_of(grad.dtype()),
          grad.shape(), name_of(dtype()), shape());
  ensure_tape_state(*this).grad = std::move(grad);
}

void set_grad_part(const Tensor& leaf, Tensor part) {
  check(
      part.defined() && part.ndim() == 1 && part.numel() <= leaf.numel() &&
          fits_as_grad(part, leaf),
      "set_grad_part: does not match the leaf; got {}, want {}, one dimension, at most {} elements",
      part.defined() ? fmt::format("{} {}", name_of(part.dtype()), part.shape()) : "undefined",
      name_of(leaf.dtype()), leaf.numel());
  ensure_tape_state(leaf).grad = std::move(part);
}

void Tensor::backward() const { booster::backward(*this); }

Tensor apply_grad_hooks(std::vector<GradHook> hooks, Tensor grad) {
  for (const auto& hook : hooks) {
    Tensor changed = hook(grad);
    if (changed.defined()) grad = std::move(changed);
  }
  return grad;
}

void register_grad_hook(const Tensor& x, GradHook hook) {
  check(x.defined() && x.requires_grad(), "register_grad_hook: tensor requires no gradient");
  ensure_tape_state(x).grad_hooks.push_back(hook);
  // A result may be destroyed before its gradient arrives, so its node stores the hooks.
  if (!x.is_leaf()) tape_state(x)->node->add_output_hook(tape_state(x)->output, std::move(hook));
}

int on_grad_ready(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  check(leaf.defined() && leaf.is_leaf(), "on_grad_ready: want a leaf");
  auto& hooks = ensure_tape_state(leaf).ready_hooks;
  const int id = hooks.empty() ? 0 : hooks.back().first + 1;
  hooks.emplace_back(id, std::move(hook));
  return id;
}

void remove_grad_ready_hook(const Tensor& leaf, int id) {
  if (TapeState* state = tape_state(leaf))
    std::erase_if(state->ready_hooks, [id](const auto& hook) { return hook.first == id; });
}

void keep_grad_in_f32(const Tensor& leaf) {
  check(leaf.defined() && leaf.is_leaf() && is_16_bit(leaf.dtype()),
        "keep_grad_in_f32: want a 16-bit leaf");
  ensure_tape_state(leaf).grad_in_f32 = true;
}

DType grad_dtype(const Tensor& leaf) {
  const TapeState* state = tape_state(leaf);
  return state && state->grad_in_f32 ? DType::f32 : leaf.dtype();
}

void set_grad_buffer(const Tensor& leaf, Tensor buffer) {
  if (buffer.defined())
    check(buffer.shape() == leaf.shape() && buffer.dtype() == grad_dtype(leaf),
          "set_grad_buffer: does not match the leaf; got {} {}, want {} {}",
          name_of(buffer.dtype()), buffer.shape(), name_of(grad_dtype(leaf)), leaf.shape());
  set_memory_tag(buffer, MemoryTag::gradients);
  ensure_tape_state(leaf).grad_buffer = std::move(buffer);
}

void clear_grad(const Tensor& leaf) {
  if (TapeState* state = tape_state(leaf)) state->grad = Tensor();
}

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : Node("accumulate_grad", 1), leaf_(leaf) {}

AccumulateGrad::~AccumulateGrad() {
  if (TapeState* state = tape_state(leaf_)) state->accumulator = nullptr;
}

namespace {

void add_to_leaf(TapeState& state, const Tensor& g) {
  if (state.grad.defined()) {
    check(state.grad.shape() == g.shape(),
          "backward: a leaf's gradient was exchanged, and this rank has only a part of it; got {}, "
          "want {}: use booster.backward, or call zero_grad before",
          state.grad.shape(), g.shape());
    kernels::on(g.device()).accumulate(state.grad.view(), g.view());
    state.grad.bump_version();
  } else if (state.grad_buffer.defined()) {
    state.grad = state.grad_buffer;
    kernels::on(g.device()).copy(state.grad.view(), g.view());
    state.grad.bump_version();
  } else {
    if (state.grad_in_f32)
      state.grad = untracked::contiguous(untracked::cast(g, DType::f32));
    else
      state.grad = is_exclusive(g) && g.is_contiguous() ? g : untracked::clone(g);
    set_memory_tag(state.grad, MemoryTag::gradients);
  }
}

}  // namespace

void AccumulateGrad::backward(std::span<const Tensor> g, Gradients&) {
  if (!leaf_.requires_grad()) return;  // frozen since the forward pass
  TapeState& state = *tape_state(leaf_);
  const bool hooked = !state.grad_hooks.empty();
  const Tensor changed = hooked ? apply_grad_hooks(state.grad_hooks, g[0]) : Tensor();
  const Tensor& grad = hooked ? changed : g[0];
  check(grad.shape() == leaf_.shape() && grad.dtype() == leaf_.dtype(),
        "backward: gradient does not match its leaf; got {} {}, want {} {}", name_of(grad.dtype()),
        grad.shape(), name_of(leaf_.dtype()), leaf_.shape());
  if (OpObserver* observer = current_observer()) [[unlikely]]
    observer->leaf_receives(leaf_, grad);
  add_to_leaf(state, grad);
  state.grad_arrived = true;
}

// Returns undefined on the CPU: a library may start its sums with the existing values. That gives
// other bits than adding a summand, as ranks do that exchange summands. Also returns undefined
// while an observer is set, because observers see summands. It queries the observer itself, because
// its callers do not.
Tensor gradient_to_add_to(const Tensor& leaf) {
  const TapeState& state = *tape_state(leaf);
  const Tensor& grad = state.grad;
  const bool is_observed = op_observer.load(std::memory_order_acquire) != nullptr;
  const bool is_same = leaf.device().type == DeviceType::cuda && leaf.dtype() == DType::f32 &&
                       grad.defined() && grad.dtype() == DType::f32 &&
                       grad.shape() == leaf.shape() && grad.is_contiguous() &&
                       state.grad_hooks.empty() && !is_observed;
  return is_same ? grad : Tensor();
}

void note_added(const Tensor& leaf) {
  TapeState& state = *tape_state(leaf);
  state.grad.bump_version();
  state.grad_arrived = true;
}

void tell_ready(const Tensor& leaf) {
  TapeState& state = *tape_state(leaf);
  if (!std::exchange(state.grad_arrived, false)) return;
  const auto hooks = state.ready_hooks;  // one may remove itself
  for (const auto& hook : hooks) hook.second(leaf);
}

bool awaits_ready(const Tensor& leaf) { return !tape_state(leaf)->ready_hooks.empty(); }

namespace {
thread_local LeafWatch* leaf_watch = nullptr;
}  // namespace

LeafWatch::LeafWatch() : outer_(std::exchange(leaf_watch, this)) {}

// Passes its leaves to the outer watch, because an outer checkpoint also reaches every leaf of an
// inner one.
LeafWatch::~LeafWatch() {
  leaf_watch = outer_;
  if (outer_) outer_->note(leaves_);
}

LeafWatch* LeafWatch::current() { return leaf_watch; }

void LeafWatch::note(std::span<const Tensor> arguments) {
  for (const Tensor& x : arguments) {
    if (!x.defined() || !x.requires_grad() || !x.is_leaf()) continue;
    const auto is_same = [&](const Tensor& known) { return known.same_body(x); };
    if (std::ranges::none_of(leaves_, is_same)) leaves_.push_back(x);
  }
}

}  // namespace booster
