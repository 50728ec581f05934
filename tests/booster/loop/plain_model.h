// A reference for a loop's calls, in double precision and in one process: the state machine of
// docs/training-step.md. It has no tensors, ranks, scales or dtypes.
#pragma once

#include "tests/booster/loop/sequence.h"

#include <array>
#include <optional>
#include <vector>

namespace booster::loop {

constexpr int size = 16;  // inputs and outputs of the models' only layer; fits 8-bit matrix units
constexpr double learning_rate = 0.125, momentum = 0.5;

// A loss is factor * sum_i sign(i) * y_i of a layer y = W x + b, with x_j = magnitude * sign(j).
// Its gradient does not depend on W, so every strategy computes it without rounding.
double sign(int i);
// Returns the magnitude of a rank's input in the n-th action.
double magnitude(const Setup& setup, int rank, int action);

// The parameters of a layer: W by rows, then b.
using Numbers = std::vector<double>;

struct PlainOptimizer {
  Numbers value, velocity;          // velocity: empty before the first step
  std::optional<Numbers> gradient;  // mean over the ranks of everything added
  bool overflowed = false;          // since its gradients were last cleared
  bool is_shown = false;            // clipped or stepped since its last backward pass
};

class PlainLoop {
 public:
  PlainLoop(const Setup& setup, bool skips, int ranks);

  // Performs the action; returns true if a step was skipped.
  bool run(const Action& action, int index);
  const PlainOptimizer& optimizer(int model) const {
    return optimizers_[static_cast<size_t>(model)];
  }
  // Returns the output of a layer for a rank's input of this action.
  Numbers output(int model, int rank, int action) const;
  double loss_scale() const { return scale_.value; }

 private:
  // The state of torch's GradScaler.
  struct Scale {
    double value = 256;
    int good = 0;
    void update(bool overflow);
  };
  void backward(const Action& action, int index);
  bool step(int model);
  void abandon(int model);
  void leave(int model, bool abandons);
  void end_iteration();

  Setup setup_;
  bool skips_;
  int ranks_;
  std::array<PlainOptimizer, 2> optimizers_;
  int awaited_ = 0, stepped_ = 0;  // one bit per optimizer
  bool overflow_ = false;
  Scale scale_;
  struct Saved {
    PlainOptimizer optimizer;
    Scale scale;
  };
  std::optional<Saved> saved_;
};

// Returns the initial values of a layer.
Numbers first_numbers(int model);

}  // namespace booster::loop
