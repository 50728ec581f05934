#include "booster/checkpoint/training_parts.h"

#include "booster/training/session.h"
#include "platform/error.h"

namespace booster {
namespace {

constexpr const char* group_name = "group";

}  // namespace

TrainingHandles::TrainingHandles(const Boosted& boosted)
    : optimizers{boosted.optimizer},
      parts{.dataloader = boosted.dataloader, .lr_schedulers = {boosted.lr_scheduler}} {}

TrainingParts::TrainingParts(const TrainingHandles& training)
    : schedules(training.parts.lr_schedulers),
      dataloader(training.parts.dataloader),
      is_group(training.is_group) {
  check(!training.optimizers.empty(), "checkpoint: the group has no optimizer");
  check(schedules.empty() || schedules.size() == training.optimizers.size(),
        "checkpoint: want a schedule for each optimizer, or none; got {} for {}", schedules.size(),
        training.optimizers.size());
  for (const BoostedOptimizer& optimizer : training.optimizers) {
    sessions.push_back(&optimizer.session());
    check(sessions.back()->iteration == session().iteration,
          "checkpoint: the optimizers were not boosted together; want one boost of all");
  }
}

std::string TrainingParts::prefix(size_t i) const {
  return is_group ? std::to_string(i) + "." : "";
}

TrainingState present_state(const TrainingParts& parts, size_t i, const nlohmann::json& settings) {
  const Session& session = *parts.sessions[i];
  TrainingState state;
  state.settings = settings;
  state.plugin = session.plugin->name();
  state.precision = session.precision->name();
  state.precision_state = session.precision->state();
  state.first_precision_state = session.first_precision_state;
  state.precision_by_rank = session.precision->state_differs_by_rank();
  state.schedule.name = "none";
  if (!parts.schedules.empty()) state.schedule = parts.schedules[i].state_dict();
  state.position.batch_size = 1;
  state.data.kind = "none";
  if (!parts.dataloader) return state;
  const DataLoaderOptions& options = parts.dataloader->options();
  state.position = data_position(*parts.dataloader);
  state.seed = options.seed;
  state.shuffle = options.shuffle;
  state.drop_last = options.drop_last;
  state.data = parts.dataloader->dataset().identity();
  return state;
}

nlohmann::json to_json(const TrainingParts& parts, const std::vector<TrainingState>& states) {
  if (!parts.is_group) return to_json(states.front());
  nlohmann::json all = nlohmann::json::array();
  for (const TrainingState& state : states) all.push_back(to_json(state));
  return {{group_name, all}};
}

std::vector<TrainingState> training_states_from(const TrainingParts& parts,
                                                const nlohmann::json& json,
                                                const std::string& file) {
  const bool of_group = json.is_object() && json.contains(group_name);
  if (of_group != parts.is_group)
    fail_data("{}: was saved of {}; got {} to resume", file,
              of_group ? "a group of models and optimizers" : "one model and optimizer",
              parts.is_group ? "a group" : "one of each");
  if (!of_group) return {training_state_from(json, file)};
  const nlohmann::json& all = json.at(group_name);
  if (!all.is_array() || all.size() != parts.sessions.size())
    fail_data("{}: was saved with another number of optimizers; got {} now, want {} to resume",
              file, parts.sessions.size(), all.size());
  std::vector<TrainingState> states;
  for (size_t i = 0; i < all.size(); ++i)
    states.push_back(training_state_from(all[i], fmt::format("{}: optimizer {}", file, i)));
  return states;
}

}  // namespace booster
