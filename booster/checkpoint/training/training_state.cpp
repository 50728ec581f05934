#include "booster/checkpoint/training/training_state.h"

#include "booster/checkpoint/folder/checkpoint.h"
#include "platform/error.h"

namespace booster {

namespace {

using Json = nlohmann::json;

Json optimizer_json(const OptimizerState& state) {
  Json groups = Json::array();
  for (const auto& group : state.groups)
    groups.push_back({{"options", group.options},
                      {"constructed", group.constructed},
                      {"step", group.step},
                      {"parameters", group.parameters}});
  return {{"rule", state.rule}, {"steps", state.steps}, {"groups", groups}};
}

Json loader_json(const TrainingState& state) {
  const DataPosition& position = state.position;
  Json json = {{"epoch", position.at.epoch}, {"batch", position.at.batch},
               {"batch_size", position.batch_size}, {"shares", position.shares},
               {"batches", position.batches}, {"seed", state.seed},
               {"shuffle", state.shuffle}, {"drop_last", state.drop_last},
               {"order", state.order}};
  if (!position.at.stream.empty()) json["stream"] = position.at.stream;
  return json;
}

Json random_json(const std::vector<RandomState>& states) {
  Json json = Json::array();
  for (const RandomState& state : states) json.push_back({state.seed, state.offset});
  return json;
}

OptimizerState optimizer_from(const StateReader& json) {
  const auto in = json.members({"rule", "steps", "groups"});
  OptimizerState state{in[0].text(), {}, in[1].counts(), {}};
  for (const auto& item : in[2].items()) {
    const auto group = item.members({"options", "constructed", "step"}, {"parameters"});
    state.groups.push_back({group[0].numbers(), group[2].count(), group[1].numbers()});
    if (const auto names = item.find("parameters"))
      for (const auto& name : names->items()) state.groups.back().parameters.push_back(name.text());
  }
  return state;
}

LRSchedulerState schedule_from(const StateReader& json) {
  const auto in = json.members({"name", "step", "base_lrs", "settings", "memory"}, {"given_lrs"});
  LRSchedulerState state{in[0].text(), in[1].count(), {}, in[3].texts(), in[4].numbers()};
  for (const auto& lr : in[2].items()) state.base_lrs.push_back(lr.number());
  if (const auto given = json.find("given_lrs"))
    for (const auto& lr : given->items()) state.given_lrs.push_back(lr.number());
  return state;
}

void read_loader(const StateReader& json, TrainingState& state) {
  const auto in = json.members(
      {"epoch", "batch", "batch_size", "shares", "batches", "seed", "shuffle", "drop_last",
       "order"},
      {"stream"});
  state.position.at = {static_cast<uint64_t>(in[0].count()), in[1].count()};
  if (const auto stream = json.find("stream")) state.position.at.stream = stream->text();
  state.position.batch_size = in[2].positive();
  state.position.shares = in[3].positive();
  state.position.batches = in[4].count();
  state.seed = in[5].bits();
  state.shuffle = in[6].flag();
  state.drop_last = in[7].flag();
  state.order = in[8].bits();
}

DatasetIdentity data_from(const StateReader& json) {
  const auto in = json.members({"kind", "samples", "classes", "fingerprint"});
  return {in[0].text(), in[1].count(), in[2].count(), in[3].bits()};
}

std::vector<RandomState> random_from(const StateReader& json) {
  std::vector<RandomState> states;
  for (const auto& item : json.nonempty_items()) {
    const auto pair = item.items(2);
    states.push_back({pair[0].bits(), pair[1].bits()});
  }
  return states;
}

}  // namespace

Json to_json(const TrainingState& state) {
  return {{"step", state.step},
          {"extra", state.extra},
          {"settings", state.settings},
          {"plugin", state.plugin},
          {"precision",
           {{"name", state.precision},
            {"state", state.precision_state},
            {"constructed", state.first_precision_state},
            {"by_rank", state.precision_by_rank}}},
          {"optimizer", optimizer_json(state.optimizer)},
          {"lr_scheduler",
           {{"name", state.schedule.name},
            {"step", state.schedule.step},
            {"base_lrs", state.schedule.base_lrs},
            {"given_lrs", state.schedule.given_lrs},
            {"settings", state.schedule.settings},
            {"memory", state.schedule.memory}}},
          {"loader", loader_json(state)},
          {"data",
           {{"kind", state.data.kind},
            {"samples", state.data.samples},
            {"classes", state.data.classes},
            {"fingerprint", state.data.fingerprint}}},
          {"random", random_json(state.random)}};
}

TrainingState training_state_from(const Json& json, const std::string& file) {
  const auto in = StateReader(json, file)
                      .members({"step", "extra", "settings", "plugin", "precision", "optimizer",
                                "lr_scheduler", "loader", "data", "random"});
  TrainingState state;
  state.step = in[0].count();
  state.extra = in[1].object();
  state.settings = in[2].object();
  state.plugin = in[3].text();
  const auto precision = in[4].members({"name", "state", "constructed", "by_rank"});
  state.precision = precision[0].text();
  state.precision_state = precision[1].numbers();
  state.first_precision_state = precision[2].numbers();
  state.precision_by_rank = precision[3].flag();
  state.optimizer = optimizer_from(in[5]);
  state.schedule = schedule_from(in[6]);
  read_loader(in[7], state);
  state.data = data_from(in[8]);
  state.random = random_from(in[9]);
  return state;
}

}  // namespace booster
