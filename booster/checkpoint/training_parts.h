// The parts of a training's checkpoint: the sessions of everything boosted in one call, and the
// program's handles that advance with them. For the thread that trains.
#pragma once

#include "booster/checkpoint/training/training_state.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "booster/training/boosted.h"
#include "booster/training/session.h"

#include <optional>
#include <vector>

namespace booster {

struct TrainingParts {
  std::vector<Session*> sessions;  // one for each optimizer; all else is shared
  std::vector<LRScheduler> schedules;  // one for each optimizer, or none
  std::optional<DataLoader> dataloader;
  bool is_group = false;  // boosted as one: states and names of the optimizers are numbered

  // Throws if there are no optimizers, or if schedules are given for only some of them.
  explicit TrainingParts(const TrainingHandles& training);

  Session& session() const { return *sessions.front(); }
  // Returns the prefix of optimizer `i`'s tensor names in a checkpoint: "" or "1.".
  std::string prefix(size_t i) const;
};

// Returns the scalar state of optimizer `i` and of the shared parts. Does not include the
// optimizer's own state, the order of samples and the random streams.
TrainingState present_state(const TrainingParts& parts, size_t i, const nlohmann::json& settings);

// Returns state.json of all optimizers.
nlohmann::json to_json(const TrainingParts& parts, const std::vector<TrainingState>& states);
// Throws an Error of kind data, beginning with `file`.
std::vector<TrainingState> training_states_from(const TrainingParts& parts,
                                                const nlohmann::json& json,
                                                const std::string& file);

}  // namespace booster
