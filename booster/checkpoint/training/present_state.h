// The numbers of a training as it is now, for its checkpoint and to compare one with. For the
// thread that trains.
#pragma once

#include "booster/boosted.h"
#include "booster/checkpoint/training/training_state.h"

namespace booster {

// Without the optimizer's numbers, the order of samples and the random streams.
TrainingState present_state(const Session& session, const Boosted& boosted,
                            const nlohmann::json& settings);

}  // namespace booster
