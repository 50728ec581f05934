// Recurrent steps on kernels. With a formula's derivatives as coefficients, most of the backward
// pass is a few calls on all steps at once: what is left in the loop is one product and the sums
// that pass from step to step.
#include "core/nn/recurrent_steps.h"

#include "core/autograd/composed_gradients.h"
#include "core/autograd/functions.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/tape.h"
#include "kernels/catalogue.h"

namespace booster {
namespace {

using kernels::BinaryOp;
using kernels::UnaryOp;
using State = RecurrentFormula::State;

void multiply(const Tensor& y, const Tensor& a, const Tensor& b) {
  kernels::on(y.device()).binary(BinaryOp::mul, y.view(), a.view(), b.view());
}
void add_to(const Tensor& y, const Tensor& x) {
  kernels::on(y.device()).binary(BinaryOp::add, y.view(), y.view(), x.view());
}
void apply(UnaryOp op, const Tensor& y, const Tensor& x) {
  kernels::on(y.device()).unary(op, y.view(), x.view());
}
// y += a b
void add_product(const Tensor& y, const Tensor& a, const Tensor& b) {
  kernels::on(y.device()).matmul(y.view(), a.view(), b.view(), 1);
}

Tensor step_of(const Tensor& x, int64_t t) { return untracked::select(x, 0, t); }
// Returns a gate's columns of (..., gates hidden).
Tensor gate(const Tensor& x, int64_t first, int64_t hidden, int64_t count = 1) {
  return untracked::narrow(x, x.ndim() - 1, first * hidden, count * hidden);
}
// Returns x (batch, hidden) as (batch, count, hidden), and (batch, count hidden) likewise.
Tensor for_each_gate(const Tensor& x, int64_t count) {
  return untracked::expand(untracked::unsqueeze(x, 1), {x.size(0), count, x.size(1)});
}
Tensor by_gate(const Tensor& x, int64_t count) {
  return untracked::strided(x, {x.size(0), count, x.size(1) / count},
                            {x.strides()[0], x.size(1) / count, 1}, x.body()->offset);
}

// The values of a run that its backward pass reads, all steps each.
struct Run {
  Tensor gates;   // activated
  Tensor h, c;    // states after each step
  Tensor hidden;  // GRU: the hidden state's part of the gates
};

// Returns the state before each step.
Tensor before_each(const Tensor& states, const Tensor& first, StepOrder order) {
  const Tensor start = unsqueeze(first, 0);
  if (order.steps == 1) return start;
  return order.reverse ? cat({narrow(states, 0, 1, order.steps - 1), start})
                       : cat({start, narrow(states, 0, 0, order.steps - 1)});
}

// The gradients of one run.
struct RunGradients {
  Tensor gates;   // of the gates before activation
  Tensor hidden;  // of the hidden state's part of them; the same but for GRU
  State first;    // of the first state
};

class Steps {
 public:
  Steps(const Tensor& weight, StepOrder order)
      : weight_(weight), turned_(untracked::transpose(weight, 0, 1)), order_(order) {}
  virtual ~Steps() = default;
  virtual Run forward(const Tensor& gates, const Tensor& bias, const State& first) const = 0;
  // `g` are the gradients of all h and of the last states; any may be undefined.
  virtual RunGradients backward(const Run& run, const State& first,
                                std::span<const Tensor> g) const = 0;

 protected:
  // Returns all gates before activation, without the hidden state's part.
  static Tensor start_of(const Tensor& gates, const Tensor& bias) {
    return bias.defined() ? gates + bias : untracked::clone(gates);
  }
  Tensor state_before(const Tensor& states, const Tensor& first, int64_t i) const {
    return i == 0 ? first : step_of(states, order_.at(i - 1));
  }
  // Returns the gradients of h that come from outside, in memory of their own.
  Tensor outer_gradients(const Tensor& h, std::span<const Tensor> g) const {
    const Tensor all =
        g[0].defined() ? untracked::clone(untracked::contiguous(g[0])) : zeros_like(h);
    if (g[1].defined()) add_to(step_of(all, order_.at(order_.steps - 1)), g[1]);
    return all;
  }

  const Tensor weight_, turned_;
  const StepOrder order_;
};

class LstmSteps : public Steps {
 public:
  using Steps::Steps;
  Run forward(const Tensor& gates, const Tensor& bias, const State& first) const override {
    const int64_t hidden = first[1].size(1);
    Run run = {start_of(gates, bias), {}, {}, {}};
    run.h = empty({order_.steps, first[0].size(0), hidden}, {gates.dtype(), gates.device()});
    run.c = empty_like(run.h);
    const Tensor product = empty_like(first[1]);
    for (int64_t i = 0; i < order_.steps; ++i) {
      const int64_t t = order_.at(i);
      const Tensor act = step_of(run.gates, t), h = step_of(run.h, t), c = step_of(run.c, t);
      add_product(act, state_before(run.h, first[0], i), turned_);
      const Tensor in_and_kept = gate(act, 0, hidden, 2), fresh = gate(act, 2, hidden),
                   out = gate(act, 3, hidden);
      apply(UnaryOp::sigmoid, in_and_kept, in_and_kept);
      apply(UnaryOp::tanh, fresh, fresh);
      apply(UnaryOp::sigmoid, out, out);
      multiply(c, gate(act, 1, hidden), state_before(run.c, first[1], i));
      multiply(product, gate(act, 0, hidden), fresh);
      add_to(c, product);
      apply(UnaryOp::tanh, h, c);
      multiply(h, h, out);
    }
    return run;
  }

  // dc = dc' + dh o (1 - tanh(c)^2). Before the activations' slopes, the gates' gradients are
  // dh tanh(c) for o, dc g for i, dc c_before for f and dc i for g.
  RunGradients backward(const Run& run, const State& first,
                        std::span<const Tensor> g) const override {
    const int64_t hidden = first[1].size(1);
    const Tensor in = gate(run.gates, 0, hidden), kept = gate(run.gates, 1, hidden),
                 fresh = gate(run.gates, 2, hidden), out = gate(run.gates, 3, hidden);
    const Tensor squashed = tanh(run.c);
    const Tensor to_c = out * (1.0 - square(squashed)), to_out = run.h * (1.0 - out);
    const Tensor slopes =
        cat({fresh * in * (1.0 - in), before_each(run.c, first[1], order_) * kept * (1.0 - kept),
             in * (1.0 - square(fresh))},
            2);
    RunGradients d = {empty_like(run.gates), {}, {zeros_like(first[0]), {}}};
    const Tensor dh = outer_gradients(run.h, g);
    Tensor dc =
        g[2].defined() ? untracked::clone(untracked::contiguous(g[2])) : zeros_like(first[1]);
    const Tensor product = empty_like(first[1]);
    for (int64_t i = order_.steps - 1; i >= 0; --i) {
      const int64_t t = order_.at(i);
      const Tensor of_h = step_of(dh, t), of_gates = step_of(d.gates, t);
      multiply(product, of_h, step_of(to_c, t));
      add_to(dc, product);
      multiply(gate(of_gates, 3, hidden), of_h, step_of(to_out, t));
      multiply(by_gate(gate(of_gates, 0, hidden, 3), 3), for_each_gate(dc, 3),
               by_gate(step_of(slopes, t), 3));
      multiply(dc, dc, step_of(kept, t));
      add_product(i == 0 ? d.first[0] : step_of(dh, order_.at(i - 1)), of_gates, weight_);
    }
    d.first[1] = dc;
    d.hidden = d.gates;
    return d;
  }
};

class GruSteps : public Steps {
 public:
  using Steps::Steps;
  Run forward(const Tensor& gates, const Tensor& bias, const State& first) const override {
    const int64_t hidden = first[0].size(1);
    Run run = {untracked::clone(gates), {}, {}, zeros_like(gates)};
    if (bias.defined()) add_to(run.hidden, untracked::expand(bias, run.hidden.shape()));
    run.h = empty({order_.steps, first[0].size(0), hidden}, {gates.dtype(), gates.device()});
    for (int64_t i = 0; i < order_.steps; ++i) {
      const int64_t t = order_.at(i);
      const Tensor act = step_of(run.gates, t), part = step_of(run.hidden, t);
      const Tensor h = step_of(run.h, t), before = state_before(run.h, first[0], i);
      add_product(part, before, turned_);
      const Tensor reset_and_kept = gate(act, 0, hidden, 2), fresh = gate(act, 2, hidden);
      add_to(reset_and_kept, gate(part, 0, hidden, 2));
      apply(UnaryOp::sigmoid, reset_and_kept, reset_and_kept);
      multiply(h, gate(act, 0, hidden), gate(part, 2, hidden));
      add_to(fresh, h);
      apply(UnaryOp::tanh, fresh, fresh);
      kernels::on(h.device()).binary(BinaryOp::sub, h.view(), before.view(), fresh.view());
      multiply(h, h, gate(act, 1, hidden));
      add_to(h, fresh);
    }
    return run;
  }

  RunGradients backward(const Run& run, const State& first,
                        std::span<const Tensor> g) const override {
    const int64_t hidden = first[0].size(1);
    const Tensor reset = gate(run.gates, 0, hidden), kept = gate(run.gates, 1, hidden),
                 fresh = gate(run.gates, 2, hidden);
    const Tensor to_fresh = (1.0 - kept) * (1.0 - square(fresh));
    const Tensor to_reset = to_fresh * gate(run.hidden, 2, hidden) * reset * (1.0 - reset);
    const Tensor to_kept = (before_each(run.h, first[0], order_) - fresh) * kept * (1.0 - kept);
    const Tensor slopes = cat({to_reset, to_kept, to_fresh}, 2);
    const Tensor of_hidden = cat({to_reset, to_kept, to_fresh * reset}, 2);
    RunGradients d = {empty_like(run.gates), empty_like(run.gates), {zeros_like(first[0])}};
    const Tensor dh = outer_gradients(run.h, g), product = empty_like(first[0]);
    for (int64_t i = order_.steps - 1; i >= 0; --i) {
      const int64_t t = order_.at(i);
      const Tensor of_h = step_of(dh, t), each = for_each_gate(of_h, 3);
      const Tensor before = i == 0 ? d.first[0] : step_of(dh, order_.at(i - 1));
      multiply(by_gate(step_of(d.gates, t), 3), each, by_gate(step_of(slopes, t), 3));
      multiply(by_gate(step_of(d.hidden, t), 3), each, by_gate(step_of(of_hidden, t), 3));
      multiply(product, of_h, step_of(kept, t));
      add_to(before, product);
      add_product(before, step_of(d.hidden, t), weight_);
    }
    return d;
  }
};

template <UnaryOp op>
class RnnSteps : public Steps {
 public:
  using Steps::Steps;
  Run forward(const Tensor& gates, const Tensor& bias, const State& first) const override {
    Run run = {{}, start_of(gates, bias), {}, {}};
    for (int64_t i = 0; i < order_.steps; ++i) {
      const Tensor h = step_of(run.h, order_.at(i));
      add_product(h, state_before(run.h, first[0], i), turned_);
      apply(op, h, h);
    }
    return run;
  }

  RunGradients backward(const Run& run, const State& first,
                        std::span<const Tensor> g) const override {
    RunGradients d = {empty_like(run.h), {}, {zeros_like(first[0])}};
    const Tensor dh = outer_gradients(run.h, g);
    const Tensor slopes =
        op == UnaryOp::tanh ? 1.0 - square(run.h) : cast(greater(run.h, 0.0), run.h.dtype());
    for (int64_t i = order_.steps - 1; i >= 0; --i) {
      const Tensor of_gates = step_of(d.gates, order_.at(i));
      multiply(of_gates, step_of(dh, order_.at(i)), step_of(slopes, order_.at(i)));
      add_product(i == 0 ? d.first[0] : step_of(dh, order_.at(i - 1)), of_gates, weight_);
    }
    d.hidden = d.gates;
    return d;
  }
};

std::unique_ptr<Steps> steps_of(const RecurrentFormula& formula, const Tensor& weight,
                                StepOrder order) {
  if (&formula == &lstm_formula) return std::make_unique<LstmSteps>(weight, order);
  if (&formula == &gru_formula) return std::make_unique<GruSteps>(weight, order);
  if (&formula == &rnn_formula("RNN", "tanh"))
    return std::make_unique<RnnSteps<UnaryOp::tanh>>(weight, order);
  return std::make_unique<RnnSteps<UnaryOp::relu>>(weight, order);
}

// Returns h of all steps and the last states as one vector each.
std::vector<Tensor> results_of(const Run& run, StepOrder order) {
  const int64_t last = order.at(order.steps - 1);
  std::vector<Tensor> results = {run.h, untracked::clone(step_of(run.h, last))};
  if (run.c.defined()) results.push_back(untracked::clone(step_of(run.c, last)));
  return results;
}

}  // namespace

bool runs_as_one(const Tensor& gates, const RecurrentWeights& weights) {
  return !op_recorder && !weights.projection.defined() &&
         (gates.dtype() == DType::f32 || gates.dtype() == DType::f64) &&
         weights.of_hidden.dtype() == gates.dtype() && gates.numel() > 0;
}

Tensor run_as_one(const RecurrentFormula& formula, const Tensor& gates, State& state,
                  const RecurrentWeights& weights, StepOrder order, ComposedSteps composed) {
  State first;
  for (const Tensor& s : state) first.push_back(untracked::contiguous(s.detach()));
  const Tensor weight = weights.of_hidden.detach(), bias = weights.hidden_bias;
  std::vector<Tensor> results;
  Run run;
  {
    const NoGradGuard no_grad;
    run = steps_of(formula, weight, order)->forward(gates.detach(), bias, first);
    results = results_of(run, order);
  }
  std::vector<Tensor> inputs = {gates, weights.of_hidden, bias};
  inputs.insert(inputs.end(), state.begin(), state.end());
  std::vector<SavedInput> saved(inputs.begin(), inputs.end());
  std::vector<Tensor*> outputs;
  for (Tensor& result : results) outputs.push_back(&result);
  const auto run_composed = [&formula, order, composed](const std::vector<Tensor>& in) {
    const State states(in.begin() + 3, in.end());
    return composed(formula, in[0], states, {{}, in[1], {}, in[2], {}}, order);
  };
  const Saved h(run.h);
  run.h = Tensor();
  record_many(
      std::span<Tensor* const>(outputs), "recurrent steps", inputs,
      twice([&formula, order, run, h, first, saved, run_composed](std::span<const Tensor> g,
                                                                  Gradients& d) {
        std::vector<Tensor> in;
        for (const SavedInput& x : saved) in.push_back(x.get());
        if (grad_enabled()) return differentiate_composed(in, g, d, run_composed);
        Run values = run;
        values.h = h;
        const RunGradients found =
            steps_of(formula, in[1].detach(), order)->backward(values, first, g);
        d[0] = found.gates;
        const int64_t rows = found.hidden.size(0) * found.hidden.size(1);
        const Tensor of_hidden = reshape(found.hidden, {rows, found.hidden.size(2)});
        if (d.wanted(1)) {
          const Tensor before = before_each(values.h, first[0], order);
          d[1] = matmul(transpose(of_hidden, 0, 1), reshape(before, {rows, before.size(2)}));
        }
        if (d.wanted(2)) d[2] = sum(of_hidden, {0});
        for (size_t s = 0; s < first.size(); ++s) d[static_cast<int>(3 + s)] = found.first[s];
      }));
  state.assign(results.begin() + 1, results.end());
  return results[0];
}

}  // namespace booster
