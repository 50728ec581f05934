#include "core/autograd/tape.h"

#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/tracking.h"

#include <atomic>
#include <limits>

namespace booster {
namespace {

std::atomic<uint64_t> next_sequence = 1;

// A call whose backward pass is a closure.
class FormulaNode : public Node {
 public:
  FormulaNode(const char* name, std::span<const Tensor> inputs, int outputs, FormulaKind kind,
              Formula formula)
      : Node(name, inputs, outputs), kind_(kind), formula_(std::move(formula)) {}
  void backward(std::span<const Tensor> g, Gradients& d) override {
    if (!formula_) graph_was_freed(name());
    formula_(g, d);
  }
  bool is_twice_differentiable() const override {
    return kind_ == FormulaKind::twice || only_casts();
  }
  bool only_casts() const override { return kind_ == FormulaKind::only_cast; }
  bool exchanges() const override { return kind_ == FormulaKind::exchange; }
  void release() override { formula_ = nullptr; }

 private:
  FormulaKind kind_;
  Formula formula_;
};

}  // namespace

Node::Node(const char* name, std::span<const Tensor> inputs, int outputs)
    : name_(name), sequence_(next_sequence++), outputs_(outputs) {
  inputs_.reserve(inputs.size());
  for (const Tensor& input : inputs) inputs_.push_back(edge_of(input));
}

// Gives leaves precedence over other ready nodes, so that their hooks run as early as possible.
Node::Node(const char* name, int outputs)
    : name_(name), sequence_(std::numeric_limits<uint64_t>::max()), outputs_(outputs) {}

// Destroys the graph below in a loop, so that the last tensor of a chain of 100,000 calls does not
// overflow the stack.
Node::~Node() {
  std::vector<Reference<Node>> pending;
  auto take = [&pending](std::vector<Edge>& edges) {
    for (Edge& edge : edges)
      if (edge.node && edge.node->references() == 1) pending.push_back(std::move(edge.node));
  };
  take(inputs_);
  while (!pending.empty()) {
    const Reference<Node> node = std::move(pending.back());
    pending.pop_back();
    node->release();  // its saved tensors may hold the nodes below
    take(node->inputs_);
  }
}

void Node::add_output_hook(int output, std::function<Tensor(const Tensor&)> hook) {
  output_hooks_.emplace_back(output, std::move(hook));
}

void Node::run_output_hooks(std::span<Tensor> g) const {
  const auto hooks = output_hooks_;  // a hook may add another
  for (const auto& [output, hook] : hooks) {
    if (!g[output].defined()) continue;
    Tensor changed = hook(g[output]);
    if (changed.defined()) g[output] = std::move(changed);
  }
}

Gradients::Gradients(const Node& node) : node_(node), values_(node.inputs().size()) {}

bool Gradients::wanted(int i) const {
  const Node* node = node_.inputs()[i].node.get();
  return node && (!ways_ || ways_->count(node) > 0);
}

Saved::Saved(const Tensor& x) {
  if (!x.defined()) return;
  x_ = x.detach();
  version_ = x.version();
}

Tensor Saved::get() const {
  if (!x_.defined()) return x_;
  check(x_.version() == version_,
        "backward: a saved tensor of shape {} was changed in place before its gradient was "
        "computed; got version {}, want {}: change a clone() instead, or step after backward",
        x_.shape(), x_.version(), version_);
  return x_;
}

Tensor SavedResult::get(const Gradients& d) const {
  const Tensor y = y_.get();
  if (!y.defined() || !grad_enabled()) return y;
  const Tensor tracked = y.detach();
  TapeState& state = ensure_tape_state(tracked);
  state.requires_grad = true;
  state.node = Reference<Node>(const_cast<Node*>(&d.node_));
  return tracked;
}

bool must_record(std::span<const Tensor> inputs) {
  if (!grad_enabled()) {
    if (LeafWatch* watch = LeafWatch::current()) [[unlikely]] watch->note(inputs);
    return false;
  }
  for (const Tensor& input : inputs)
    if (input.defined() && input.requires_grad()) return true;
  return false;
}

void mark_made_by_op(const Tensor& y, bool made) { ensure_tape_state(y).made_by_op = made; }

bool was_made_by_op(const Tensor& x) {
  const TapeState* state = tape_state(x);
  return state && state->made_by_op;
}

void mark_result(const Tensor& y, std::span<const Tensor> inputs) {
  bool made = true;
  for (const Tensor& input : inputs)
    if (input.defined() && input.shares_storage(y)) made = was_made_by_op(input);
  mark_made_by_op(y, made);
}

void attach(const Reference<Node>& node, std::span<Tensor* const> outputs) {
  int index = 0;
  for (Tensor* output : outputs) {
    const int i = index++;
    if (!output->defined() || !is_floating(output->dtype())) continue;
    TapeState& state = ensure_tape_state(*output);
    state.requires_grad = true;
    state.node = node;
    state.output = i;
  }
}

void graph_was_freed(const char* name) {
  fail(
      "backward: the graph was already freed (at {}); got a second backward, want {{.retain_graph "
      "= true}} in the first one",
      name);
}

CallNotice notice_of(std::span<const Tensor> inputs) {
  if (must_record(inputs)) return CallNotice::record;
  return current_observer() || results_are_marked || op_recorder ? CallNotice::report
                                                                 : CallNotice::none;
}

void record_call(CallNotice notice, std::span<Tensor* const> outputs, const char* name,
                 std::span<const Tensor> inputs, FormulaKind kind, Formula formula) {
  if (OpObserver* observer = current_observer()) [[unlikely]]
    for (const Tensor* y : outputs) observer->op_returned(name, inputs, *y);
  if (op_recorder) [[unlikely]]
    for (const Tensor* y : outputs) note_result(name, inputs, {y, 1});
  if (results_are_marked) [[unlikely]]
    for (const Tensor* y : outputs) mark_result(*y, inputs);
  if (notice != CallNotice::record) return;
  const int n = static_cast<int>(outputs.size());
  attach(Reference<Node>(new FormulaNode(name, inputs, n, kind, std::move(formula))), outputs);
}

}  // namespace booster
