#include "booster/checkpoint/async_save.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/checkpoint_names.h"
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/training/finish_together.h"
#include "booster/checkpoint/training/random_streams.h"
#include "booster/checkpoint/training/resume_rules.h"
#include "booster/checkpoint/training/whole_tensors.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "booster/checkpoint/training_parts.h"
#include "booster/training/session.h"
#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"
#include "platform/warn.h"

#include <algorithm>

namespace booster {
namespace {

using Json = nlohmann::json;

constexpr const char* what_fails = "resume";

// A checkpoint's parts, checked but not yet in force.
struct Incoming {
  std::vector<TrainingState> states;  // per optimizer; shared parts are in each
  std::vector<SettingChange> changes;
  TensorMap held[std::size(tensor_kinds)];  // what this rank holds, by kind
  std::vector<std::function<void()>> load_optimizers;
  std::vector<RandomState> streams;

  const TrainingState& common() const { return states.front(); }

  TensorMap& of(TensorKind kind) { return held[static_cast<size_t>(kind)]; }
};

// Runs `load`; turns its errors about the contents into errors of the checkpoint.
template <class F>
auto blaming(const std::string& what, F&& load) {
  try {
    return load();
  } catch (const Error& error) {
    fail_data("{}: {}", what, error.what());
  }
}

std::vector<TrainingState> read_states(const TrainingParts& parts, const Json& json, int64_t step,
                                       const std::string& what) {
  std::vector<TrainingState> states = training_states_from(parts, json, what + "/state.json");
  for (const TrainingState& state : states)
    if (state.step != step)
      fail_data("{}: its manifest is of another step; got {}, want {}", what, step, state.step);
  return states;
}

// Adds the changes that are not reported yet; changes of shared parts are the same for all
// optimizers.
void tell_once(const std::vector<SettingChange>& more, const std::string& prefix,
               std::vector<SettingChange>& changes) {
  for (SettingChange change : more) {
    const bool own = change.name.starts_with("optimizer.") ||
                     change.name.starts_with("lr_scheduler.");
    if (own) change.name = prefix + change.name;
    const bool told = std::ranges::any_of(
        changes, [&](const SettingChange& one) { return one.name == change.name; });
    if (!told) changes.push_back(change);
  }
}

// Compares and adopts everything except tensors.
void read_numbers(const TrainingParts& parts, const Json& settings, const std::string& what,
                  Incoming& in) {
  const Session& session = parts.session();
  const Group group = session.plugin->group();
  std::vector<TrainingState> now;
  for (size_t i = 0; i < parts.sessions.size(); ++i) {
    now.push_back(present_state(parts, i, settings));
    now[i].optimizer = parts.sessions[i]->optimizer.state_dict();
    now[i].random = random_streams(group);
  }
  uint64_t part = 0;
  run_together(group, what_fails, [&] {
    for (size_t i = 0; i < now.size(); ++i) check_same_training(in.states[i], now[i], what);
    if (parts.dataloader) part = order_part(*parts.dataloader, in.common().position.at.epoch);
  });
  const uint64_t order = parts.dataloader ? order_of_ranks(part, *parts.dataloader, group) : 0;
  run_together(group, what_fails, [&] {
    for (size_t i = 0; i < now.size(); ++i) {
      TrainingState& state = in.states[i];
      now[i].order = order;
      check_same_order(state, now[i], what);
      state.position.at =
          moved_position(state.position, now[i].position, now[i].data.samples, what);
      if (parts.dataloader) check_places(state.position.at.stream, *parts.dataloader, what);
      const Optimizer& optimizer = parts.sessions[i]->optimizer;
      tell_once(blaming(what, [&] { return adopt_changes(state, now[i], optimizer); }),
                parts.prefix(i), in.changes);
    }
    in.streams = streams_to_resume(in.common().random, now.front().random);
  });
}

// Tensors of no optimizer stay as they are; check_numbered reports them.
TensorMap split_optimizers(const TrainingParts& parts, TensorMap whole) {
  TensorMap all;
  for (size_t i = 0; i < parts.sessions.size(); ++i) {
    const std::string prefix = parts.prefix(i);
    TensorMap own;
    for (auto it = whole.begin(); it != whole.end();) {
      const auto next = std::next(it);
      if (it->first.starts_with(prefix)) {
        own.emplace(it->first.substr(prefix.size()), it->second);
        whole.erase(it);
      }
      it = next;
    }
    for (const auto& [name, tensor] : split_optimizer(*parts.sessions[i], own))
      all.emplace(prefix + name, tensor);
  }
  all.merge(whole);
  return all;
}

// Returns the parts of some whole tensors that this rank holds; plugins may use the group.
TensorMap split(const TrainingParts& parts, TensorKind kind, const TensorMap& whole) {
  switch (kind) {
    case TensorKind::model: return split_model(parts.session(), whole);
    case TensorKind::optimizer: return split_optimizers(parts, whole);
    default: return whole;
  }
}

// Prepares loading one optimizer, whose tensors' names begin with `prefix`.
std::function<void()> prepared_optimizer(const Session& session, const std::string& prefix,
                                         const TensorMap& tensors, TrainingState& state) {
  state.optimizer.steps = split_steps(session, state.optimizer.steps);
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix))
      state.optimizer.tensors.emplace(name.substr(prefix.size()), tensor);
  Optimizer optimizer = session.optimizer;
  auto load = optimizer.prepare_load(state.optimizer);
  state.optimizer.tensors.clear();
  return load;
}

void check_numbered(const TrainingParts& parts, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    bool known = false;
    for (size_t i = 0; i < parts.sessions.size(); ++i) known |= name.starts_with(parts.prefix(i));
    if (!known) fail_data("optimizer: no such tensor; got {}", name);
  }
}

// Reads file by file, so that no rank holds more than one whole file at once.
void read_tensors(const TrainingParts& parts, const CheckpointReader& reader,
                  const std::string& what, Incoming& in) {
  const Session& session = parts.session();
  const Group group = session.plugin->group();
  for (const TensorKind kind : tensor_kinds) {
    std::vector<std::string> files;
    finish_together(group, what_fails, [&] { files = reader.files(kind); });
    for (const std::string& file : files) {
      TensorMap whole;
      finish_together(group, what_fails, [&] { whole = reader.load(kind, file); });
      run_together(group, what_fails, [&] {
        blaming(what, [&] { in.of(kind).merge(split(parts, kind, whole)); });
      });
    }
  }
  run_together(group, what_fails, [&] {
    TensorMap& precision = in.of(TensorKind::precision);
    precision = split_precision(session, precision);
    check_held(session, in.of(TensorKind::model), precision, what);
    blaming(what, [&] {
      const TensorMap tensors = std::move(in.of(TensorKind::optimizer));
      check_numbered(parts, tensors);
      for (size_t i = 0; i < parts.sessions.size(); ++i)
        in.load_optimizers.push_back(
            prepared_optimizer(*parts.sessions[i], parts.prefix(i), tensors, in.states[i]));
    });
  });
}

// What loading a schedule's state changes, so that it can be restored.
struct ScheduleBefore {
  LRScheduler schedule;
  LRSchedulerState state;
  Optimizer optimizer;
  std::vector<OptimizerOptions> options;

  ScheduleBefore(const LRScheduler& schedule, const Optimizer& optimizer)
      : schedule(schedule), state(schedule.state_dict()), optimizer(optimizer) {
    for (int group = 0; group < optimizer.group_count(); ++group)
      options.push_back(optimizer.options(group));
  }
  void put_back() {
    schedule.load_state_dict(state);
    for (size_t group = 0; group < options.size(); ++group)
      optimizer.set_options(static_cast<int>(group), options[group]);
  }
};

// Puts in force the state that schedules and strategy may refuse: all of it, or none.
void try_numbers(const TrainingParts& parts, const std::vector<TrainingState>& states) {
  std::vector<ScheduleBefore> before;
  for (size_t i = 0; i < parts.schedules.size(); ++i)
    before.emplace_back(parts.schedules[i], parts.sessions[i]->optimizer);
  try {
    for (size_t i = 0; i < before.size(); ++i)
      before[i].schedule.load_state_dict(states[i].schedule);
    parts.session().precision->load(states.front().precision_state);
  } catch (...) {
    for (ScheduleBefore& one : before) one.put_back();
    throw;
  }
}

// After try_numbers nothing can fail. The order matters: masters are copied into parameters last,
// and the schedules' rates into the optimizers' options.
void put_in_force(const TrainingParts& parts, Incoming& in, const std::string& what) {
  const NoGradGuard no_grad;
  Session& session = parts.session();
  settle(session);
  blaming(what, [&] { try_numbers(parts, in.states); });
  assign_held(session, in.of(TensorKind::model), in.of(TensorKind::precision));
  for (const auto& load : in.load_optimizers) load();
  for (size_t i = 0; i < parts.schedules.size(); ++i)
    LRScheduler(parts.schedules[i]).load_state_dict(in.states[i].schedule);
  if (auto loader = parts.dataloader) loader->load_state(in.common().position.at);
  default_generator().set_state(in.streams[static_cast<size_t>(session.plugin->group().rank())]);
  session.iteration->stepped.clear();  // they were steps from other weights
  session.iteration->found_inf = {};
  for (Session* one : parts.sessions) one->zero_grad();  // so are these gradients
}

// Returns rank 0's choice: the newest complete checkpoint's name and its manifest's hash, or "".
std::pair<std::string, std::string> choose(const std::filesystem::path& root, const Group& group,
                                           const std::function<void(const std::string&)>& report) {
  std::string chosen;
  std::vector<std::string> lines;  // reported on the caller's thread
  const auto look = [&] {
    const auto keep = [&](const std::string& line) { lines.push_back(line); };
    const auto folder = latest_checkpoint(root, keep);
    if (folder) chosen = manifest_hash(*folder) + folder->filename().string();
  };
  std::exception_ptr error;
  try {
    finish_together(group, what_fails, group.rank() == 0 ? look : std::function<void()>());
  } catch (...) {
    error = std::current_exception();
  }
  for (const auto& line : lines) report(line);
  if (error) std::rethrow_exception(error);
  const std::string text = gather_text(chosen, group)[0];
  const size_t digits = std::min<size_t>(text.size(), 64);
  return {text.substr(digits), text.substr(0, digits)};
}

std::optional<Resumed> resume(const std::filesystem::path& root, const TrainingParts& parts,
                              const std::function<void(const std::string&)>& report,
                              const Json& settings) {
  Session& session = parts.session();
  const Group group = session.plugin->group();
  finish_last_save(session);
  const auto [name, manifest] = choose(root, group, report);
  if (name.empty()) return {};
  const std::filesystem::path folder = root / name;
  const std::string what = folder.string();
  std::optional<CheckpointReader> reader;
  Incoming in;
  finish_together(group, what_fails, [&, &manifest = manifest] {
    if (manifest_hash(folder) != manifest)
      fail_data("{}: another checkpoint than that of rank 0; want one folder for all ranks", what);
    reader.emplace(folder);
    in.states = read_states(parts, reader->state(), reader->manifest().step, what);
  });
  read_numbers(parts, settings, what, in);
  read_tensors(parts, *reader, what, in);
  put_in_force(parts, in, what);
  for (const auto& [setting, before, value] : in.changes)
    if (group.rank() == 0)
      report(terminal_text(
          fmt::format("{}: changed from {} to {}; the new value counts", setting, before, value)));
  return Resumed{.step = in.common().step,
                 .epoch = static_cast<int64_t>(in.common().position.at.epoch),
                 .extra = in.common().extra,
                 .tensors = std::move(in.of(TensorKind::program)),
                 .changes = in.changes,
                 .folder = folder};
}

}  // namespace

StateReader Resumed::extra_values() const {
  return {extra, (folder / state_name).string(), "extra"};
}

std::optional<Resumed> resume_training(const std::filesystem::path& root,
                                       const TrainingHandles& training,
                                       const std::function<void(const std::string&)>& report,
                                       const Json& settings) {
  return resume(root, TrainingParts(training), report, settings);
}

}  // namespace booster
