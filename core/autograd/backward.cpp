// The backward pass. Nodes run in the reverse of the order in which they were recorded, each once
// all gradients of its outputs have arrived.
#include "core/autograd/deferred_gradients.h"
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/tracking.h"
#include "kernels/catalogue.h"
#include "kernels/system/trace.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace booster {

namespace {

thread_local int depth = 0;  // > 1 inside the recomputation of a checkpoint
thread_local std::vector<std::function<void()>> end_hooks;
thread_local std::vector<Tensor> arrived_inside;  // leaves, by inner passes

struct Depth {
  Depth() {
    if (++depth == 1) phase.emplace("backward", kernels::SpanKind::phase);
  }
  ~Depth() {
    if (--depth > 0) return;
    end_hooks.clear();
    arrived_inside.clear();
  }
  std::optional<kernels::TraceScope> phase;
};

}  // namespace

// Where a backward pass begins, and with what gradient.
struct Root {
  Edge edge;
  Tensor grad;
};

// One backward pass: into the gradients of all leaves or, with `inputs`, only to these tensors.
class Backward {
 public:
  // What is put off needs its way to the leaf later, so nothing is released then.
  Backward(std::vector<Root> roots, bool retain_graph, const std::vector<Tensor>& inputs = {})
      : retain_graph_(retain_graph || DeferredGradients::current()),
        collects_(!inputs.empty()),
        collected_(inputs.size()) {
    for (const Tensor& input : inputs) places_.push_back(edge_of(input));
    if (collects_) find_ways(roots);
    count_uses(roots);
    for (Root& root : roots) {
      Gathered& gathered = gathered_[root.edge.node.get()];
      const bool named_before = gathered.is_root;
      gathered.is_root = true;
      add(gathered, root.edge.output, std::move(root.grad));
      if (gathered.missing == 0 && !named_before) ready_.push(root.edge.node);
    }
  }

  std::vector<Tensor> run() {
    while (!ready_.empty() || !meanwhile_.empty()) {
      if (ready_.empty() || !is_on_way_to_exchange(*ready_.top())) {
        catch_up();
        if (ready_.empty()) continue;
      }
      Reference<Node> node = ready_.top();
      ready_.pop();
      visit(*node);
    }
    return std::move(collected_);
  }

  // A node that exchanges, or one with a single input, such as a cast, right behind one.
  static bool is_on_way_to_exchange(const Node& node) {
    if (node.exchanges()) return true;
    const Node* next = node.inputs().size() == 1 ? node.inputs()[0].node.get() : nullptr;
    return next && next->exchanges();
  }

  void do_meanwhile(const Node& node, int i, std::function<Tensor()> gradient) {
    meanwhile_.push_back({node.inputs()[i], node.name(), std::move(gradient)});
  }

  // True if nothing else has come to this place of the tape, nor will.
  bool is_only_use(const Node& node) const {
    if (collects_) return false;
    const Gathered& gathered = gathered_.at(const_cast<Node*>(&node));
    return gathered.missing == 1 && !gathered.is_root && !gathered.received[0].defined();
  }

  void catch_up() {
    for (Meanwhile& work : std::exchange(meanwhile_, {})) {
      const kernels::TraceScope span(work.op, kernels::SpanKind::op);
      Tensor gradient = std::exchange(work.gradient, nullptr)();
      deliver(work.to, std::move(gradient));
    }
  }

 private:
  struct Meanwhile {
    Edge to;
    const char* op;
    std::function<Tensor()> gradient;
  };
  struct Gathered {
    int missing = 0;  // uses of this node's outputs that have not sent a gradient yet
    bool is_root = false;
    std::vector<Tensor> received;
  };
  struct Later {
    bool operator()(const Reference<Node>& a, const Reference<Node>& b) const {
      return a->sequence() < b->sequence();
    }
  };

  static bool is_leaf(const Node& node) { return node.inputs().empty(); }

  bool is_place(const Node* node) const {
    return std::any_of(places_.begin(), places_.end(),
                       [node](const Edge& place) { return place.node.get() == node; });
  }

  // Finds the nodes from which a requested input can be reached. Inputs of a call were recorded
  // before it; leaves have no inputs.
  void find_ways(const std::vector<Root>& roots) {
    std::vector<Node*> nodes;
    std::unordered_set<const Node*> seen;
    for (const Root& root : roots)
      if (seen.insert(root.edge.node.get()).second) nodes.push_back(root.edge.node.get());
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const Edge& edge : nodes[i]->inputs())
        if (edge.node && seen.insert(edge.node.get()).second) nodes.push_back(edge.node.get());
    std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) {
      if (is_leaf(*a) != is_leaf(*b)) return is_leaf(*a);
      return a->sequence() < b->sequence();
    });
    for (Node* node : nodes) {
      bool leads = is_place(node);
      for (const Edge& edge : node->inputs()) leads |= ways_.count(edge.node.get()) > 0;
      if (leads) ways_.insert(node);
    }
  }

  bool is_wanted(const Edge& edge) const {
    return edge.node && (!collects_ || ways_.count(edge.node.get()) > 0);
  }

  bool leads_on(const Node& node) const {
    return !collects_ || std::any_of(node.inputs().begin(), node.inputs().end(),
                                     [this](const Edge& edge) { return is_wanted(edge); });
  }

  // What must have run before the node at the other end is visited.
  template <class F>
  void for_each_use(const Node& node, F&& use) const {
    for (const Edge& edge : node.inputs())
      if (is_wanted(edge)) use(edge);
    if (collects_) return;
    for (const Edge& edge : node.leaves_inside()) use(edge);
  }

  // Iterative, since graphs of deep models would overflow the stack.
  void count_uses(const std::vector<Root>& roots) {
    std::vector<Node*> open;
    for (const Root& root : roots) {
      if (gathered_.count(root.edge.node.get()) > 0) continue;
      add_progress(*root.edge.node);
      open.push_back(root.edge.node.get());
    }
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for_each_use(*node, [&](const Edge& edge) {
        const bool seen = gathered_.count(edge.node.get()) > 0;
        if (!seen) {
          add_progress(*edge.node);
          open.push_back(edge.node.get());
        }
        ++gathered_[edge.node.get()].missing;
      });
    }
  }

  void add_progress(Node& node) {
    Gathered& gathered = gathered_[&node];
    gathered.received.resize(node.outputs());
  }

  void visit(Node& node) {
    std::vector<Tensor> g = std::move(gathered_[&node].received);
    node.run_output_hooks(g);
    if (collects_) collect(node, g);
    if (collects_ && is_leaf(node)) return;
    bool any = false;
    for (const Tensor& one : g) any |= one.defined();
    Gradients d(node);
    d.pass_ = this;
    if (collects_) d.ways_ = &ways_;
    if (any && leads_on(node)) {
      check_order(node);
      const kernels::TraceScope span(node.name(), kernels::SpanKind::op);
      if (OpObserver* observer = current_observer()) [[unlikely]]
        run_seen(*observer, node, g, d);
      else
        node.backward(g, d);
    }
    g.clear();
    if (node.leaf()) return leave_leaf(*node.leaf());
    if (!retain_graph_) node.release();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Edge& edge = node.inputs()[i];
      const bool comes_later = std::ranges::count(d.meanwhile_, static_cast<int>(i)) > 0;
      if (is_wanted(edge) && !comes_later) deliver(edge, std::move(d.values_[i]));
    }
    if (collects_) return;
    for (const Edge& edge : node.leaves_inside()) deliver(edge, {});
  }

  // An inner pass cannot know what else will arrive; the outermost one counts it.
  static void leave_leaf(const Tensor& leaf) {
    if (depth == 1) return tell_ready(leaf);
    arrived_inside.push_back(leaf);
  }

  static void run_seen(OpObserver& observer, Node& node, std::span<const Tensor> g, Gradients& d) {
    const int64_t begin = kernels::trace_clock();
    {
      const UnobservedScope formula(node.is_twice_differentiable());  // made of functions
      node.backward(g, d);
    }
    observer.backward_returned(node.name(), g, d.values_, kernels::trace_clock() - begin);
  }

  void collect(const Node& node, std::span<const Tensor> g) {
    for (size_t i = 0; i < places_.size(); ++i)
      if (places_[i].node.get() == &node) collected_[i] = g[static_cast<size_t>(places_[i].output)];
  }

  static void check_order(const Node& node) {
    check(!grad_enabled() || node.is_twice_differentiable(),
          "gradients: {} cannot be differentiated twice; got create_graph = true, want functions "
          "that can: arithmetic, shapes, sums, means, norms, matmul, linear, activations but "
          "softmax",
          node.name());
  }

  void deliver(const Edge& edge, Tensor grad) {
    Gathered& gathered = gathered_[edge.node.get()];
    if (grad.defined()) add(gathered, edge.output, std::move(grad));
    if (--gathered.missing == 0) ready_.push(edge.node);
  }

  static void add(Gathered& gathered, int output, Tensor grad) {
    Tensor& sum = gathered.received[output];
    if (!sum.defined()) {
      sum = std::move(grad);
      return;
    }
    if (grad_enabled()) {
      sum = sum + grad;
      return;
    }
    const bool is_wider = sum.dtype() == DType::bf16 && grad.dtype() == DType::f32;
    if (is_wider || (!is_exclusive(sum) && grad.dtype() == sum.dtype())) std::swap(sum, grad);
    const auto& table = kernels::on(sum.device());
    if (is_exclusive(sum)) {
      table.accumulate(sum.view(), grad.view());
      return;
    }
    Tensor fresh = empty_like(sum);
    table.binary(kernels::BinaryOp::add, fresh.view(), sum.view(), grad.view());
    sum = std::move(fresh);
  }

  bool retain_graph_;
  bool collects_;
  std::vector<Edge> places_;            // positions of the inputs on the tape
  std::vector<Tensor> collected_;       // what arrived there
  std::unordered_set<const Node*> ways_;
  std::unordered_map<Node*, Gathered> gathered_;
  std::vector<Meanwhile> meanwhile_;
  std::priority_queue<Reference<Node>, std::vector<Reference<Node>>, Later> ready_;
};

// An observer sees all that a node gives when it returns; a tape for a second pass records it then.
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

// The leaf right there, or behind its cast to the dtype of an op, if an f32 gradient would reach it
// unchanged and alone.
static const Tensor* leaf_at(const Edge& edge, const Backward* pass) {
  const auto is_alone = [&](const Node& node) { return !pass || pass->is_only_use(node); };
  const Node* node = edge.node.get();
  if (node->only_casts()) {
    if (node->has_output_hooks() || !is_alone(*node)) return nullptr;
    node = node->inputs()[0].node.get();
  }
  return node->leaf() && is_alone(*node) ? node->leaf() : nullptr;
}

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

namespace {

Tensor initial_gradient(const Tensor& root, Tensor grad) {
  if (!grad.defined()) {
    check(root.numel() == 1,
          "backward: the root must have one element unless a gradient is given; got shape {}",
          root.shape());
    return ones(root.shape(), {root.dtype(), root.device()});
  }
  check(grad.shape() == root.shape() && grad.dtype() == root.dtype(),
        "backward: gradient does not fit the root; got {} {}, want {} {}", name_of(grad.dtype()),
        grad.shape(), name_of(root.dtype()), root.shape());
  return grad;
}

void check_on_tape(const Tensor& root) {
  check(root.defined(), "backward: tensor is undefined");
  check(root.requires_grad(),
        "backward: the tensor is not on the tape; got a result that no tensor with requires_grad "
        "took part in (or one made under NoGradGuard)");
}

// A pass into the leaves.
void run_pass(std::vector<Root> roots, bool retain_graph) {
  const NoGradGuard no_grad;
  const MemoryScope memory(MemoryTag::workspace);
  const Depth inside;
  Backward(std::move(roots), retain_graph).run();
  if (depth > 1) return;
  for (const Tensor& leaf : arrived_inside) tell_ready(leaf);  // of leaves that were not foreseen
  for (size_t i = 0; i < end_hooks.size(); ++i) end_hooks[i]();
}

}  // namespace

void on_backward_end(std::function<void()> hook) {
  check(depth > 0, "on_backward_end: want a call from a hook that runs during backward");
  end_hooks.push_back(std::move(hook));
}

std::vector<Tensor> gradients(const Tensor& root, const std::vector<Tensor>& inputs,
                              GradientOptions options) {
  check_on_tape(root);
  check(!inputs.empty(), "gradients: no inputs; want the tensors whose gradients are asked for");
  for (const Tensor& input : inputs)
    check(input.defined() && input.requires_grad(), "gradients: an input requires no gradient");
  Tensor grad = initial_gradient(root, std::move(options.grad));
  const GradMode mode(options.create_graph);
  const PolicyScope uncast(options.create_graph ? nullptr : current_policy());
  const MemoryScope memory(MemoryTag::workspace);
  const Depth inside;
  const bool keeps = options.retain_graph || options.create_graph;
  return Backward({{edge_of(root), std::move(grad)}}, keeps, inputs).run();
}

void backward(const Tensor& root, BackwardOptions options) {
  check_on_tape(root);
  Tensor grad = initial_gradient(root, std::move(options.grad));
  run_pass({{edge_of(root), std::move(grad)}}, options.retain_graph);
}

void backward(const std::vector<Tensor>& roots, SeveralBackwardOptions options) {
  check(!roots.empty(), "backward: no roots; want the tensors to start from");
  check(options.grads.size() <= roots.size(),
        "backward: more gradients than roots; got {} for {}", options.grads.size(), roots.size());
  options.grads.resize(roots.size());
  std::vector<Root> starts;
  for (size_t i = 0; i < roots.size(); ++i) {
    check_on_tape(roots[i]);
    starts.push_back({edge_of(roots[i]), initial_gradient(roots[i], std::move(options.grads[i]))});
  }
  run_pass(std::move(starts), options.retain_graph);
}

void backward_from(const Edge& start, Tensor grad) {
  run_pass({{start, std::move(grad)}}, true);
}

}  // namespace booster
