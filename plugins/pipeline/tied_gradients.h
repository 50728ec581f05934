// TiedGradients: gradients of a parameter that several stages hold, such as a language model's
// embedding that is also its head. The gradient is the sum over these stages. For one thread.
#pragma once

#include "plugins/pipeline/stage_parts.h"

#include <map>
#include <vector>

namespace booster {

class TiedGradients {
 public:
  TiedGradients() = default;
  // Makes the groups. Collective over all stages, as are begin and end.
  TiedGradients(const StageParts& parts, const Group& group);
  // Begins a pass over a batch: separates the pass's contribution from the present gradients.
  void begin();
  // Ends the pass on this stage. On all stages that hold the parameter, its gradient becomes the
  // earlier gradient plus the sum of the stages' contributions.
  void end();

 private:
  struct Tied {
    Tensor parameter;
    Group holders;
    Tensor gradient, numbers;  // when the pass began, and a copy of its values; undefined: none
  };
  std::vector<Tied> all_;
};

}  // namespace booster
