// BackwardPass: what must happen around the backward pass of a loss, whoever runs it: the program's
// own loss, or a plugin's schedule of microbatches. For one thread, one at a time.
#pragma once

#include "booster/training/session.h"

#include <list>
#include <utility>
#include <vector>

namespace booster {

class BackwardPass {
 public:
  // Begins. The gradients are for these sessions' optimizers, all of one call of boost.
  BackwardPass(const std::vector<Session*>& sessions, const ScaleLossOptions& options);
  // One that has not ended has failed: its optimizers do not step before zero_grad.
  ~BackwardPass();
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;
  // What backward starts from.
  Tensor root(const Tensor& loss) const;
  // The last gradient has come. Not called where backward failed.
  void end();

 private:
  // Sees whether a gradient reaches an optimizer's parameters.
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
  void await(const Optimizer& optimizer);

  std::vector<Session*> sessions_;
  Session& first_;
  std::list<Watch> not_named_;
  bool has_ended_ = false;
};

}  // namespace booster
