// What a checkpoint of a training is made of: the sessions of what was boosted in one call, and the
// program's handles that move with them. For the thread that trains.
#pragma once

#include "booster/checkpoint/training/training_state.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "booster/training/boosted.h"

#include <optional>
#include <vector>

namespace booster {

struct TrainingParts {
  std::vector<Session*> sessions;  // one for each optimizer; they share all but that
  std::vector<LRScheduler> schedules;  // one for each optimizer, or none
  std::optional<DataLoader> dataloader;
  bool is_group = false;  // boosted as one: states and names of the optimizers are numbered

  explicit TrainingParts(Boosted& boosted);
  // Errors: no models or optimizers; schedules for some of the optimizers; a plugin that gives
  // ranks parts of the models or of the optimizers' state.
  TrainingParts(const BoostedGroup& group, const GroupParts& parts);

  Session& session() const { return *sessions.front(); }
  // What the name of a tensor of optimizer `i` begins with in a checkpoint: "", or "1.".
  std::string prefix(size_t i) const;
};

// The numbers of optimizer `i` and of what all have, without the optimizer's own, the order of
// samples and the random streams.
TrainingState present_state(const TrainingParts& parts, size_t i, const nlohmann::json& settings);

// state.json of all optimizers.
nlohmann::json to_json(const TrainingParts& parts, const std::vector<TrainingState>& states);
// Error of kind data; `file` begins it.
std::vector<TrainingState> training_states_from(const TrainingParts& parts,
                                                const nlohmann::json& json,
                                                const std::string& file);

}  // namespace booster
