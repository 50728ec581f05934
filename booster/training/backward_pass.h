// BackwardPass: the work around the backward pass of a loss. The loss is the program's own or comes
// from a plugin's schedule of micro-batches. For one thread, one pass at a time.
#pragma once

#include "booster/training/session.h"

#include <list>
#include <utility>
#include <vector>

namespace booster {

class BackwardPass {
 public:
  // Begins the pass. The optimizers of these sessions, all from one boost() call, use its
  // gradients.
  BackwardPass(const std::vector<Session*>& sessions, const ScaleLossOptions& options);
  // Marks a pass without end() as failed; its optimizers do not step before zero_grad.
  ~BackwardPass();
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;
  // Returns the tensor that backward starts from.
  Tensor root(const Tensor& loss) const;
  // Ends the pass after the last gradient. Not called if backward failed.
  void end();

 private:
  // Records whether a gradient reaches any parameter of an optimizer.
  class Watch {
   public:
    explicit Watch(const Optimizer& optimizer);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    const Optimizer& optimizer() const { return optimizer_; }
    bool was_reached() const { return reached_; }

   private:
    Optimizer optimizer_;
    std::vector<std::pair<Tensor, int>> hooks_;
    bool reached_ = false;
  };
  // Settles earlier passes, and begins the strategy's pass.
  LossPass begin_loss(const ScaleLossOptions& options);
  void await(const Optimizer& optimizer);

  std::vector<Session*> sessions_;
  Session& first_;
  std::list<Watch> not_named_;
  LossPass loss_;
  PassScope scope_;
  bool has_ended_ = false;
};

}  // namespace booster
