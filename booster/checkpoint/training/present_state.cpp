#include "booster/checkpoint/training/present_state.h"

namespace booster {

TrainingState present_state(const Session& session, const Boosted& boosted,
                            const nlohmann::json& settings) {
  const DataLoaderOptions& options = boosted.dataloader.options();
  TrainingState state;
  state.settings = settings;
  state.plugin = session.plugin->name();
  state.precision = session.precision->name();
  state.precision_state = session.precision->state();
  state.first_precision_state = session.first_precision_state;
  state.precision_by_rank = session.precision->state_differs_by_rank();
  state.schedule = boosted.lr_scheduler.state_dict();
  state.position = data_position(boosted.dataloader);
  state.seed = options.seed;
  state.shuffle = options.shuffle;
  state.drop_last = options.drop_last;
  state.data = boosted.dataloader.dataset().identity();
  return state;
}

}  // namespace booster
