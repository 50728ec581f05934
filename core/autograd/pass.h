// One backward pass over the tape. Nodes run in the reverse order of recording, each once all
// gradients of its outputs have arrived. For backward.cpp, which starts passes, and gradients.cpp,
// which connects nodes to their pass.
#pragma once

#include "core/autograd/deferred_gradients.h"
#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/tracking.h"
#include "core/tensor/channels_last.h"
#include "kernels/catalogue.h"
#include "platform/trace.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace booster {

// Handles a leaf whose gradient is complete, as far as this pass can tell (backward.cpp).
void leave_leaf(const Tensor& leaf);

// Start of a backward pass, with its gradient.
struct Root {
  Edge edge;
  Tensor grad;
};

// One backward pass. It adds to the gradients of all leaves or, given `inputs`, returns the
// gradients of these tensors only.
class Backward {
 public:
  // Prepares a pass. It retains the graph for deferred gradients, which need their path to the leaf
  // later.
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

  // Returns true for a node that exchanges. Also for a node with one input, such as a cast, just
  // before an exchanging node in the pass.
  static bool is_on_way_to_exchange(const Node& node) {
    if (node.exchanges()) return true;
    const Node* next = node.inputs().size() == 1 ? node.inputs()[0].node.get() : nullptr;
    return next && next->exchanges();
  }

  bool retains_graph() const { return retain_graph_; }

  void do_meanwhile(const Node& node, int i, std::function<Tensor()> gradient) {
    meanwhile_.push_back({node.inputs()[i], node.name(), std::move(gradient)});
  }

  // Returns true if no other gradient has arrived, or will arrive, at this node.
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

  // Finds the nodes that lead to a requested input. A call's inputs were recorded before it; leaves
  // have no inputs.
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

  // Calls `use` for each edge whose far node must wait for this one.
  template <class F>
  void for_each_use(const Node& node, F&& use) const {
    for (const Edge& edge : node.inputs())
      if (is_wanted(edge)) use(edge);
    if (collects_) return;
    for (const Edge& edge : node.leaves_inside()) use(edge);
  }

  // Counts the uses iteratively, because recursion over graphs of deep models would overflow the
  // stack.
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
          "gradients: {} cannot be differentiated twice; got create_graph = true, want only "
          "functions that can: arithmetic, shape functions, reading and writing by index, sorting, "
          "sums "
          "(also running ones), means, norms, matmul, einsum, linear, convolutions, attention, "
          "recurrent layers, layer and RMS norms, activations, casts and the losses composed of "
          "them",
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
    Tensor fresh = empty_in_order_of(sum, sum.dtype());
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

}  // namespace booster
