// Converts a training's tensors between two forms: the parts that each rank holds, and the whole
// tensors of a checkpoint under the names that a single process uses. Whole tensors are made one at
// a time, so that no rank ever holds the whole state. Each function with a session is collective:
// all ranks call it on the thread that trains, with the same calls in the same order.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/training/session.h"

#include <functional>
#include <string>

namespace booster {

// --- from parts to whole tensors
struct WholeTensors {
  // Called on rank 0 for each whole tensor, which may share memory with the training.
  std::function<void(TensorKind kind, const std::string& name, const Tensor& whole)> take;
  // Called on all ranks after each tensor.
  std::function<void()> after_each = [] {};
};
// Joins the model's tensors, floating ones in the dtype that the strategy wants.
void join_model(const Session& session, const WholeTensors& out);
// Joins some of the model's tensors in the same way.
void join_weights(const Session& session, const StateDict& held,
                  const std::function<void(const std::string& name, const Tensor& whole)>& take,
                  const std::function<void()>& after_each);
// Joins the optimizer's tensors. Returns each parameter's step count, on rank 0.
std::map<std::string, int64_t> join_optimizer(const Session& session, const WholeTensors& out);
// Joins the strategy's tensors, and the exact values of the model's tensors that join_model rounds.
void join_precision(const Session& session, const WholeTensors& out);

// --- from whole tensors to the parts that this rank holds
TensorMap split_model(const Session& session, const TensorMap& whole);
// Returns state in the form that Optimizer::prepare_load wants.
TensorMap split_optimizer(const Session& session, const TensorMap& whole);
std::map<std::string, int64_t> split_steps(const Session& session,
                                           const std::map<std::string, int64_t>& steps);
// A strategy that kept its tensors by rank and now shares them takes rank 0's. A rank that did not
// exist at the save takes rank 0's too.
TensorMap split_precision(const Session& session, const TensorMap& whole);

// Throws an Error of kind data, beginning with `what`, unless these are the tensors that this rank
// holds. Reads no value of the model: a plugin may have freed its memory.
void check_held(const Session& session, const TensorMap& model, const TensorMap& precision,
                const std::string& what);
// Waits for parameters that are still being communicated. Called before weights are written.
void settle(const Session& session);
// Writes the tensors into model and strategy.
void assign_held(const Session& session, const TensorMap& model, const TensorMap& precision);

}  // namespace booster
