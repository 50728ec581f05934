// BackwardPass: what must happen around the backward pass of a loss, whoever runs it: the program's
// own loss, or a plugin's schedule of microbatches. For one thread, one at a time.
#pragma once

#include "booster/session.h"

#include <utility>
#include <vector>

namespace booster {

class BackwardPass {
 public:
  // Begins. The gradients are for these sessions' optimizers, all of one call of boost.
  BackwardPass(const std::vector<Session*>& sessions, const ScaleLossOptions& options);
  // What backward starts from.
  Tensor root(const Tensor& loss) const;
  // The last gradient has come. Not called where backward failed.
  void end();

 private:
  // The gradients that an optimizer had when the pass began.
  struct Before {
    Optimizer optimizer;
    std::vector<std::pair<Tensor, uint32_t>> gradients;  // with versions
  };
  static Before gradients_of(const Optimizer& optimizer);
  static bool has_changed(const Before& before);
  void await(const Optimizer& optimizer);

  std::vector<Session*> sessions_;
  Session& first_;
  std::vector<Before> not_named_;
};

}  // namespace booster
