#include "booster/checkpoint/training_checkpoint.h"

#include "core/autograd/functions.h"
#include "core/tensor/grad_mode.h"
#include "core/tensor/random.h"
#include "parallel/rank_notes.h"

#include <bit>
#include <string_view>

namespace booster {
namespace {

using Json = nlohmann::json;

TensorMap as_map(const StateDict& state) {
  TensorMap tensors;
  for (const auto& [name, tensor] : state) tensors.emplace(name, tensor.detach());
  return tensors;
}

// The model's tensors for a checkpoint, with floating ones in the dtype that the strategy wants:
// what this rank holds of them.
StateDict saved_model(const Session& session) {
  StateDict tensors = session.model.state_dict();
  if (const auto dtype = session.precision->saved_dtype())
    for (auto& [name, tensor] : tensors)
      if (is_floating(tensor.dtype())) tensor = untracked::cast(tensor, *dtype);
  return tensors;
}

// From whole tensors to what this rank holds.
TensorMap split(const Session& session, const TensorMap& whole) {
  StateDict tensors;
  for (const auto& [name, tensor] : whole) tensors.push_back({name, tensor});
  session.plugin->split(tensors);
  return as_map(tensors);
}

// The model's tensors that saved_model() rounds.
StateDict rounded_tensors(const Session& session) {
  StateDict tensors;
  const auto saved = session.precision->saved_dtype();
  for (const auto& [name, tensor] : session.model.state_dict())
    if (saved && is_floating(tensor.dtype()) && promote(tensor.dtype(), *saved) != *saved)
      tensors.push_back({name, tensor.detach()});
  return tensors;
}

constexpr std::string_view rounded_prefix = "model.";

TensorMap as_one(const StateDict& own, const StateDict& rounded) {
  TensorMap tensors = as_map(own);
  for (const auto& [name, tensor] : rounded)
    tensors.emplace(std::string(rounded_prefix) + name, tensor);
  return tensors;
}

// The strategy's own tensors and the rounded ones: what this rank holds.
TensorMap precision_tensors(const Session& session) {
  return as_one(session.precision->state_tensors(), rounded_tensors(session));
}

// The same, whole on rank 0. All ranks call it.
TensorMap joined_precision(const Session& session) {
  StateDict own = session.precision->state_tensors(), rounded = rounded_tensors(session);
  session.plugin->join(own);
  session.plugin->join(rounded);
  return as_one(own, rounded);
}

// From whole tensors to what this rank holds.
TensorMap split_precision(const Session& session, const TensorMap& whole) {
  const bool rounds = session.precision->saved_dtype().has_value();
  StateDict own, rounded;
  for (const auto& [name, tensor] : whole)
    if (rounds && name.starts_with(rounded_prefix))
      rounded.push_back({name.substr(rounded_prefix.size()), tensor});
    else own.push_back({name, tensor});
  session.plugin->split(own);
  session.plugin->split(rounded);
  return as_one(own, rounded);
}

// All or nothing; converts back from the saved dtype.
void load_model(const Session& session, const TensorMap& saved, const std::string& what) {
  const TensorMap model = as_map(session.model.state_dict()),
                  converted = as_map(saved_model(session));
  assign_tensors(converted, split(session, saved), what);
  if (session.precision->saved_dtype())
    for (auto [name, tensor] : model) tensor.copy_(converted.at(name));
}

Json optimizer_numbers(const OptimizerState& state) {
  Json groups = Json::array();
  for (const auto& group : state.groups)
    groups.push_back({{"options", group.options}, {"step", group.step}});
  return {{"rule", state.rule}, {"steps", state.steps}, {"groups", groups}};
}

// A parameter's count of steps travels with its tensors: ranks may hold different parameters.
constexpr std::string_view steps_suffix = ".steps";

StateDict with_steps(const OptimizerState& state) {
  StateDict tensors;
  for (const auto& [name, tensor] : state.tensors) tensors.push_back({name, tensor});
  for (const auto& [name, steps] : state.steps)
    tensors.push_back({name + std::string(steps_suffix), from_vector(std::vector{steps}, {1})});
  return tensors;
}

void set_tensors(OptimizerState& state, const StateDict& with_steps) {
  state.tensors.clear();
  state.steps.clear();
  for (const auto& [name, tensor] : with_steps) {
    if (name.ends_with(steps_suffix))
      state.steps[name.substr(0, name.size() - steps_suffix.size())] =
          tensor.to_vector<int64_t>()[0];
    else
      state.tensors.emplace(name, tensor.detach());
  }
}

// The optimizer's state, whole on rank 0. All ranks call it.
OptimizerState joined_optimizer(const Session& session) {
  OptimizerState state = session.optimizer.state_dict();
  StateDict tensors = with_steps(state);
  session.plugin->join(tensors);
  set_tensors(state, tensors);
  return state;
}

OptimizerState optimizer_state(const Json& numbers, const TensorMap& tensors) {
  OptimizerState state{numbers.at("rule"), tensors, numbers.at("steps"), {}};
  for (const auto& group : numbers.at("groups"))
    state.groups.push_back({group.at("options"), group.at("step")});
  return state;
}

// Every rank's random stream, in rank order: seed and offset.
Json random_states(const Group& group) {
  const RandomState mine = default_generator().state();
  std::vector<int64_t> own = {std::bit_cast<int64_t>(mine.seed),
                              std::bit_cast<int64_t>(mine.offset)};
  std::vector<int64_t> all(own.size() * static_cast<size_t>(group.size()));
  group.all_gather(all, own);
  Json states = Json::array();
  for (size_t i = 0; i < all.size(); i += 2)
    states.push_back({std::bit_cast<uint64_t>(all[i]), std::bit_cast<uint64_t>(all[i + 1])});
  return states;
}

Json training_state(Session& session, const Boosted& boosted, const Progress& progress,
                    const OptimizerState& optimizer) {
  const LoaderState loader = boosted.dataloader.state();
  const LRSchedulerState schedule = boosted.lr_scheduler.state_dict();
  return {
      {"epoch", progress.epoch},
      {"extra", progress.extra},
      {"plugin", session.plugin->name()},
      {"precision", {{"name", session.precision->name()}, {"state", session.precision->state()}}},
      {"optimizer", optimizer_numbers(optimizer)},
      {"lr_scheduler",
       {{"name", schedule.name}, {"step", schedule.step}, {"base_lrs", schedule.base_lrs}}},
      {"loader", {{"epoch", loader.epoch}, {"batch", loader.batch}}},
      {"random", random_states(session.plugin->group())}};
}

// Errors here leave everything unchanged.
void check_fits(const Session& session, const Json& state, const std::string& what) {
  const std::string precision = state.at("precision").at("name");
  if (precision != session.precision->name())
    fail_data("{}: was trained in {}; got {} now, want the same precision to resume", what,
              precision, session.precision->name());
  const size_t ranks = state.at("random").size();
  const size_t now = static_cast<size_t>(session.plugin->group().size());
  if (ranks != now)
    fail_data("{}: was trained on {} ranks; got {} now, want the same number to resume", what,
              ranks, now);
}

void load_numbers(Session& session, Boosted& boosted, const CheckpointContents& contents) {
  const Json& state = contents.state;
  const Json& schedule = state.at("lr_scheduler");
  OptimizerState optimizer = optimizer_state(state.at("optimizer"), contents.optimizer);
  StateDict tensors = with_steps(optimizer);
  session.plugin->split(tensors);
  set_tensors(optimizer, tensors);
  session.optimizer.load_state_dict(optimizer);
  boosted.lr_scheduler.load_state_dict(
      {schedule.at("name"), schedule.at("step"), schedule.at("base_lrs")});
  session.precision->load(state.at("precision").at("state").get<PrecisionState>());
  boosted.dataloader.load_state({state.at("loader").at("epoch"), state.at("loader").at("batch")});
  const Json& mine = state.at("random").at(static_cast<size_t>(session.plugin->group().rank()));
  default_generator().set_state({mine.at(0), mine.at(1)});
}

// Restores everything unless `keep` is called.
class Rollback {
 public:
  Rollback(Session& session, Boosted& boosted)
      : session_(session),
        boosted_(boosted),
        optimizer_(session.optimizer.state_dict()),
        schedule_(boosted.lr_scheduler.state_dict()),
        precision_(session.precision->state()) {
    for (const auto& [name, tensor] : session.model.state_dict())
      model_.push_back({name, tensor.clone()});
    for (const auto& [name, tensor] : session.precision->state_tensors())
      precision_tensors_.emplace(name, tensor.clone());
    for (auto& [name, tensor] : optimizer_.tensors) tensor = tensor.clone();
  }
  ~Rollback() {
    if (kept_) return;
    session_.model.load_state_dict(model_);
    session_.optimizer.load_state_dict(optimizer_);
    boosted_.lr_scheduler.load_state_dict(schedule_);
    session_.precision->load(precision_);
    assign_tensors(as_map(session_.precision->state_tensors()), precision_tensors_, "rollback");
  }
  void keep() { kept_ = true; }

 private:
  Session& session_;
  Boosted& boosted_;
  StateDict model_;
  OptimizerState optimizer_;
  LRSchedulerState schedule_;
  PrecisionState precision_;
  TensorMap precision_tensors_;
  bool kept_ = false;
};

// Shares whether rank 0 succeeded, so that no rank continues alone.
void agree_on_success(const Group& group, const std::string& error) {
  std::vector<int64_t> failed = {error.empty() ? 0 : 1};
  group.broadcast(failed, 0);
  if (!error.empty()) raise(ErrorKind::failed, error);
  if (failed[0]) fail_run("checkpoint: rank 0 could not save; its message says why");
}

}  // namespace

void save_training(const std::filesystem::path& root, Boosted& boosted, const Progress& progress,
                   int keep) {
  const SavingNote saving("a checkpoint");
  Session& session = boosted.model.session();
  const Group group = session.plugin->group();
  CheckpointContents contents;
  contents.step = progress.step;
  StateDict model = saved_model(session);
  session.plugin->join(model);
  const OptimizerState optimizer = joined_optimizer(session);
  const TensorMap precision = joined_precision(session);
  contents.state = training_state(session, boosted, progress, optimizer);
  contents.about = {{"ranks", group.size()},
                    {"plugin", session.plugin->name()},
                    {"precision", session.precision->name()}};
  std::string error;
  if (group.rank() == 0) {
    contents.model = as_map(model);
    contents.optimizer = optimizer.tensors;
    contents.precision = precision;
    try {
      save_checkpoint(root, contents, keep);
    } catch (const Error& failure) {
      error = failure.what();
    }
  }
  agree_on_success(group, error);
  session.pass_on_all_notes();
}

std::optional<Progress> resume_training(const std::filesystem::path& root, Boosted& boosted,
                                        const std::function<void(const std::string&)>& report) {
  Session& session = boosted.model.session();
  const auto folder = latest_checkpoint(root, report);
  if (!folder) return {};
  const CheckpointContents contents = load_checkpoint(*folder);
  const std::string what = folder->string();
  const NoGradGuard no_grad;
  try {
    check_fits(session, contents.state, what);
    Rollback rollback(session, boosted);
    load_model(session, contents.model, what);
    assign_tensors(precision_tensors(session), split_precision(session, contents.precision),
                   what + ": precision");
    load_numbers(session, boosted, contents);
    rollback.keep();
    session.zero_grad();  // gradients from before belong to other weights
    return Progress{contents.step, contents.state.at("epoch"), contents.state.at("extra")};
  } catch (const Json::exception& mistake) {
    fail_data("{}: state.json lacks something or holds the wrong type: {}", what, mistake.what());
  }
}

}  // namespace booster
