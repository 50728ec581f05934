// TiedGradients: a parameter that several stages use (the embedding of a language model that is
// also its head) is on each of them, and its gradient is the sum of theirs. For one thread.
#pragma once

#include "plugins/pipeline/stage_parts.h"

#include <map>
#include <vector>

namespace booster {

class TiedGradients {
 public:
  TiedGradients() = default;
  // All stages call it, and what follows.
  TiedGradients(const StageParts& parts, const Group& group);
  // A pass over a batch begins: what it adds to gradients is to be told from what they are.
  void begin();
  // It has ended on this stage: gradients are, on all stages that have the parameter, what they
  // were and the sum of what the pass added on each.
  void end();

 private:
  struct Tied {
    Tensor parameter;
    Group holders;
    Tensor gradient, numbers;  // when the pass began, and a copy of its numbers; undefined: none
  };
  std::vector<Tied> all_;
};

}  // namespace booster
