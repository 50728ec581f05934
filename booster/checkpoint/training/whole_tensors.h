// The tensors of a training between two forms: what each rank holds of them, and the whole ones
// that a checkpoint has by the names that one process gives them. Whole ones are made one at a
// time, so that no rank ever holds the state of all. All ranks call each function that has a
// session, on the thread that trains, with the same calls in the same order.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/training/session.h"

#include <functional>
#include <string>

namespace booster {

// --- out
struct WholeTensors {
  // On rank 0, for each whole tensor. It may share memory with the training.
  std::function<void(TensorKind kind, const std::string& name, const Tensor& whole)> take;
  // On all ranks, behind each.
  std::function<void()> after_each = [] {};
};
// The model, floating tensors in the dtype that the strategy wants.
void join_model(const Session& session, const WholeTensors& out);
// Some of the model's tensors, the same way.
void join_weights(const Session& session, const StateDict& held,
                  const std::function<void(const std::string& name, const Tensor& whole)>& take,
                  const std::function<void()>& after_each);
// Returns each parameter's count of steps, on rank 0.
std::map<std::string, int64_t> join_optimizer(const Session& session, const WholeTensors& out);
// What the strategy keeps, and the model's tensors that join_model rounds.
void join_precision(const Session& session, const WholeTensors& out);

// --- and back: from some whole tensors to what this rank holds of them
TensorMap split_model(const Session& session, const TensorMap& whole);
// Of state as Optimizer::prepare_load wants it.
TensorMap split_optimizer(const Session& session, const TensorMap& whole);
std::map<std::string, int64_t> split_steps(const Session& session,
                                           const std::map<std::string, int64_t>& steps);
// A strategy that had numbers by rank, and has common ones now, takes rank 0's; a rank that was not
// there takes them too.
TensorMap split_precision(const Session& session, const TensorMap& whole);

// Error of kind data unless these are the tensors that this rank holds; `what` begins it. No
// number of the model is read: a plugin may have given its memory away.
void check_held(const Session& session, const TensorMap& model, const TensorMap& precision,
                const std::string& what);
// To be called before weights are written: parameters that are still on their way arrive.
void settle(const Session& session);
// Writes them into model and strategy.
void assign_held(const Session& session, const TensorMap& model, const TensorMap& precision);

}  // namespace booster
