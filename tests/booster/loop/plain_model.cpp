#include "tests/booster/loop/plain_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace booster::loop {

double sign(int i) { return (i * 7 + i / 3) % 2 == 0 ? 1 : -1; }

double magnitude(const Setup& setup, int rank, int action) {
  constexpr double choices[] = {0.25, 0.5, 1};
  if (setup.strategy == "fp8") action = 0;  // a value larger than all before would be clipped
  return choices[(rank * 2 + action * 5 + action / 2) % 3];
}

Numbers first_numbers(int model) {
  Numbers numbers;
  for (int i = 0; i < size * size + size; ++i) numbers.push_back(((i * 5 + model) % 9 - 4) * 0.25);
  return numbers;
}

PlainLoop::PlainLoop(const Setup& setup, bool skips, int ranks)
    : setup_(setup), skips_(skips), ranks_(ranks) {
  for (int model : {0, 1}) optimizers_[static_cast<size_t>(model)].value = first_numbers(model);
}

void PlainLoop::Scale::update(bool overflow) {
  constexpr int growth_interval = 4;
  good = overflow ? 0 : good + 1;
  if (overflow) value *= 0.5;
  if (good < growth_interval) return;
  value *= 2;
  good = 0;
}

Numbers PlainLoop::output(int model, int rank, int action) const {
  const Numbers& w = optimizer(model).value;
  Numbers y;
  for (int i = 0; i < size; ++i) {
    double sum = w[static_cast<size_t>(size * size + i)];
    for (int j = 0; j < size; ++j)
      sum += w[static_cast<size_t>(i * size + j)] * magnitude(setup_, rank, action) * sign(j);
    y.push_back(sum);
  }
  return y;
}

void PlainLoop::backward(const Action& action, int index) {
  if ((stepped_ & action.names) != 0 && awaited_ == 0) end_iteration();
  double mean = 0;
  for (int rank = 0; rank < ranks_; ++rank) mean += magnitude(setup_, rank, index) / ranks_;
  const double factor = action.overflow >= 0 ? INFINITY : action.factor * (action.twice ? 2 : 1);
  for (int model : {0, 1}) {
    PlainOptimizer& mine = optimizers_[static_cast<size_t>(model)];
    if (((action.reaches | action.names) >> model & 1) != 0) mine.is_shown = false;
    if ((action.reaches >> model & 1) == 0) continue;
    if (!mine.gradient) mine.gradient = Numbers(mine.value.size(), 0);
    for (int i = 0; i < size; ++i) {
      for (int j = 0; j < size; ++j)
        (*mine.gradient)[static_cast<size_t>(i * size + j)] += factor * mean * sign(i) * sign(j);
      (*mine.gradient)[static_cast<size_t>(size * size + i)] += factor * sign(i);
    }
    mine.overflowed |= action.overflow >= 0;
  }
  awaited_ |= action.reaches | action.names;
}

namespace {

void clip_value(Numbers& gradient, double limit) {
  for (double& g : gradient) g = std::clamp(g, -limit, limit);
}

// Clips like torch.nn.utils.clip_grad_norm_.
void clip_norm(Numbers& gradient, double limit) {
  double squares = 0;
  for (const double g : gradient) squares += g * g;
  const double factor = std::min(1.0, limit / (std::sqrt(squares) + 1e-6));
  for (double& g : gradient) g *= factor;
}

bool is_finite(const Numbers& numbers) {
  return std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); });
}

}  // namespace

void PlainLoop::end_iteration() {
  if (std::exchange(stepped_, 0) != 0) scale_.update(std::exchange(overflow_, false));
}

void PlainLoop::leave(int model, bool abandons) {
  const bool was_awaited = (awaited_ >> model & 1) != 0;
  awaited_ &= ~(1 << model);
  const bool have_all_stepped = stepped_ == (setup_.two_models ? 3 : 1);
  if (have_all_stepped || (abandons && was_awaited && awaited_ == 0)) end_iteration();
}

void PlainLoop::abandon(int model) {
  PlainOptimizer& mine = optimizers_[static_cast<size_t>(model)];
  mine.gradient.reset();
  mine.overflowed = mine.is_shown = false;
  leave(model, true);
}

bool PlainLoop::step(int model) {
  PlainOptimizer& mine = optimizers_[static_cast<size_t>(model)];
  const bool counts = mine.gradient || (awaited_ >> model & 1) != 0;
  mine.is_shown = true;
  bool skipped = false;
  if (mine.gradient) {
    skipped = skips_ && (mine.overflowed || !is_finite(*mine.gradient));
    if (!skipped) {
      if (mine.velocity.empty()) mine.velocity = Numbers(mine.value.size(), 0);
      for (size_t i = 0; i < mine.value.size(); ++i) {
        mine.velocity[i] = momentum * mine.velocity[i] + (*mine.gradient)[i];
        mine.value[i] -= learning_rate * mine.velocity[i];
      }
    }
  }
  if (counts) stepped_ |= 1 << model;
  overflow_ |= skipped;
  leave(model, false);
  return skipped;
}

bool PlainLoop::run(const Action& action, int index) {
  PlainOptimizer& mine = optimizers_[static_cast<size_t>(action.model)];
  switch (action.call) {
    case Call::backward: backward(action, index); break;
    case Call::clip_value:
      mine.is_shown = true;
      if (mine.gradient) clip_value(*mine.gradient, action.limit);
      break;
    case Call::clip_norm:
      mine.is_shown = true;
      if (mine.gradient) clip_norm(*mine.gradient, action.limit);
      break;
    case Call::halve:
      if (mine.gradient && mine.is_shown)
        for (double& g : *mine.gradient) g *= 0.5;
      break;
    case Call::zero_grad: abandon(action.model); break;
    case Call::step: return step(action.model);
    case Call::evaluate: break;
    case Call::save:
      if (awaited_ == 0) end_iteration();
      saved_ = {mine, scale_};
      break;
    case Call::resume:
      if (!saved_) break;
      abandon(0);
      mine = saved_->optimizer;
      mine.gradient.reset();
      mine.overflowed = mine.is_shown = false;
      scale_ = saved_->scale;
      break;
  }
  return false;
}

}  // namespace booster::loop
