// Plugin: how a model is spread over ranks. The seam between a training step and a strategy of
// distribution.
//
// The base class is `single`: one process, nothing to do. A plugin never asks in what numbers the
// model trains. One object serves what was boosted in one call, and one thread.
#pragma once

#include "core/data/loader.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"
#include "parallel/layout.h"

#include <memory>

namespace booster {

class Plugin {
 public:
  virtual ~Plugin() = default;
  virtual const char* name() const { return "single"; }
  virtual Layout layout() const { return {}; }
  // All ranks that take part; one alone here.
  virtual Group group() const { return {}; }

  // Once, when model and optimizer are boosted; all ranks call it.
  virtual void prepare(const Model&, const Optimizers&) {}
  // This rank's share of a dataset.
  virtual DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                        DataLoaderOptions options) const {
    return DataLoader(std::move(dataset), std::move(options));
  }

  virtual void before_forward() {}
  // With the model's output, from which the tape can be walked.
  virtual void after_forward(const Tensor&) {}
  // False: gradients of the coming backward passes stay local (accumulation).
  virtual void set_sync(bool) {}

  // Makes numbers (f32 on the device) the same on all ranks: the largest of each. For verdicts, and
  // for magnitudes that a strategy saw in a pass.
  virtual void agree(Tensor&) {}

  // --- the step, in this order
  // Waits until every gradient is the global one.
  virtual void sync_grads() {}
  virtual void sync_params() {}
};

using SinglePlugin = Plugin;

}  // namespace booster
