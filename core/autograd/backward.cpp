// The entry points of backward passes.
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/pass.h"

#include <optional>

namespace booster {

namespace {

thread_local int depth = 0;  // > 1 inside the recomputation of a checkpoint
thread_local std::vector<std::function<void()>> end_hooks;
thread_local std::vector<Tensor> arrived_inside;  // leaves that inner passes reached

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

// Leaves counting to the outermost pass, since an inner pass does not know which gradients will
// still arrive. Does not keep leaves without a waiting hook: most are inputs of a checkpoint's
// second run, whose memory ends with it.
void leave_leaf(const Tensor& leaf) {
  if (depth == 1 || !awaits_ready(leaf)) return tell_ready(leaf);
  arrived_inside.push_back(leaf);
}

namespace {

Tensor initial_gradient(const Tensor& root, Tensor grad) {
  if (!grad.defined()) {
    check(root.numel() == 1,
          "backward: the root needs a gradient unless it has one element; got shape {}",
          root.shape());
    return ones(root.shape(), {root.dtype(), root.device()});
  }
  check(grad.shape() == root.shape() && grad.dtype() == root.dtype(),
        "backward: gradient does not match the root; got {} {}, want {} {}", name_of(grad.dtype()),
        grad.shape(), name_of(root.dtype()), root.shape());
  return grad;
}

void check_on_tape(const Tensor& root) {
  check(root.defined(), "backward: tensor is undefined");
  check(root.requires_grad(),
        "backward: the tensor is not on the tape; got a result that depends on no tensor with "
        "requires_grad (or one made under NoGradGuard)");
}

// Runs a pass into the leaves.
void run_pass(std::vector<Root> roots, bool retain_graph) {
  const NoGradGuard no_grad;
  const MemoryScope memory(MemoryTag::workspace);
  const Depth inside;
  Backward(std::move(roots), retain_graph).run();
  if (depth > 1) return;
  for (const Tensor& leaf : arrived_inside) tell_ready(leaf);  // for unforeseen leaves
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
  check(!inputs.empty(), "gradients: no inputs; want the tensors whose gradients to compute");
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
  check(options.grads.size() <= roots.size(), "backward: more gradients than roots; got {} for {}",
        options.grads.size(), roots.size());
  options.grads.resize(roots.size());
  std::vector<Root> starts;
  for (size_t i = 0; i < roots.size(); ++i) {
    check_on_tape(roots[i]);
    starts.push_back({edge_of(roots[i]), initial_gradient(roots[i], std::move(options.grads[i]))});
  }
  run_pass(std::move(starts), options.retain_graph);
}

void backward_from(const Edge& start, Tensor grad) { run_pass({{start, std::move(grad)}}, true); }

}  // namespace booster
