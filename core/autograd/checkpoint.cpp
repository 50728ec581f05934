// Activation recomputation: the operations inside fn are not recorded, and fn runs again in the
// backward pass.
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/autograd/tracking.h"
#include "core/tensor/random/data_place.h"
#include "core/tensor/random/random.h"
#include "core/tensor/seen_tokens.h"
#include "core/tensor/token_layout.h"

#include <algorithm>
#include <utility>

namespace booster {
namespace {

thread_local bool runs_again = false;

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Thread state that fn depends on: the next random draw, the random stream, this rank's tokens, and
// which tokens attention sees.
struct Surroundings {
  RandomState state = default_generator().state();
  uint64_t stream = random_stream(), place = random_data_place();
  TokenLayout tokens = token_layout();
  Tensor seen = seen_tokens();

  void restore() const {
    default_generator().set_state(state);
    set_random_stream(stream);
    set_data_place(place);
    set_token_layout(tokens);
  }
};

// Restores the state of the first run for one scope, so that dropout draws the same values again.
class Replay {
 public:
  explicit Replay(const Surroundings& first_run) { first_run.restore(); }
  ~Replay() { now_.restore(); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  Surroundings now_;
};

class SecondRun {
 public:
  SecondRun() = default;
  ~SecondRun() { runs_again = before_; }
  SecondRun(const SecondRun&) = delete;
  SecondRun& operator=(const SecondRun&) = delete;

 private:
  bool before_ = std::exchange(runs_again, true);
};

class CheckpointNode : public Node {
 public:
  CheckpointNode(const Function& fn, const std::vector<Tensor>& inputs,
                 const std::vector<Tensor>& leaves, const Surroundings& first_run, int outputs)
      : Node("checkpoint", inputs, outputs), fn_(fn), first_run_(first_run) {
    for (const Tensor& leaf : leaves) leaves_.push_back(edge_of(leaf));
    for (const Tensor& input : inputs) {
      inputs_.emplace_back(input);
      made_by_op_.push_back(input.defined() && was_made_by_op(input));
    }
  }

  void backward(std::span<const Tensor> g, Gradients& d) override {
    if (!fn_) graph_was_freed(name());
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Tensor leaf = inputs_[i].get();
      if (leaf.defined()) leaf = leaf.detach();
      if (made_by_op_[i]) mark_made_by_op(leaf, true);
      if (d.wanted(static_cast<int>(i))) leaf.requires_grad_();
      leaves.push_back(leaf);
    }
    // fn may have no parameters, and no input that requires a gradient.
    const std::vector<Tensor> y = run_again(leaves);
    check(y.size() == g.size(),
          "checkpoint: the second run gave another number of results; got {}, want {}", y.size(),
          g.size());
    std::vector<Tensor> roots, grads;
    for (size_t i = 0; i < y.size(); ++i) {
      if (!g[i].defined() || !y[i].requires_grad()) continue;
      roots.push_back(y[i]);
      grads.push_back(g[i]);
    }
    if (!roots.empty()) booster::backward(roots, {.grads = std::move(grads)});
    for (size_t i = 0; i < leaves.size(); ++i)
      if (d.wanted(static_cast<int>(i))) d[static_cast<int>(i)] = leaves[i].grad();
  }

  std::span<const Edge> leaves_inside() const override { return leaves_; }

  void release() override {
    fn_ = nullptr;
    inputs_.clear();
  }

 private:
  std::vector<Tensor> run_again(const std::vector<Tensor>& leaves) {
    const GradMode record(true);
    const Replay replay(first_run_);
    const PolicyScope policy = policy_.scope();
    const SecondRun second;
    const SeenTokens seen(first_run_.seen);
    return fn_(leaves);
  }

  Function fn_;
  std::vector<Edge> leaves_;
  std::vector<Saved> inputs_;
  std::vector<bool> made_by_op_;  // as policies saw the inputs in the first run
  Surroundings first_run_;
  PolicyMemory policy_{current_policy()};
};

}  // namespace

bool is_second_run() { return runs_again; }

// Results that are inputs keep their own tape, so nothing attaches them to the node.
std::vector<Tensor> checkpoint(const Function& fn, const std::vector<Tensor>& inputs) {
  const Surroundings first_run;
  std::vector<Tensor> all, attached;
  std::vector<Tensor> leaves;
  {
    const NoGradGuard no_grad;
    const LeafWatch watch;
    const std::vector<Tensor> results = fn(inputs);
    leaves = watch.leaves();
    for (const Tensor& result : results) {
      const auto is_it = [&](const Tensor& input) { return input.same_body(result); };
      const bool passes = !result.defined() || std::ranges::any_of(inputs, is_it);
      all.push_back(passes ? result : result.detach());
      attached.push_back(passes ? Tensor() : all.back());
      if (!passes && results_are_marked) mark_made_by_op(all.back(), was_made_by_op(result));
    }
  }
  // Recorded even if no input requires a gradient: parameters inside fn may.
  if (grad_enabled()) {
    std::vector<Tensor*> outputs;
    for (Tensor& one : attached) outputs.push_back(&one);
    attach(Reference<Node>(
               new CheckpointNode(fn, inputs, leaves, first_run, static_cast<int>(outputs.size()))),
           outputs);
  }
  return all;
}

Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                  const std::vector<Tensor>& inputs) {
  const Function one = [fn](const std::vector<Tensor>& x) { return std::vector<Tensor>{fn(x)}; };
  return checkpoint(one, inputs)[0];
}

}  // namespace booster
