#include "booster/checkpoint/async_save.h"
#include "booster/checkpoint/files/file.h"
#include "booster/checkpoint/files/sha256.h"
#include "booster/checkpoint/training/finish_together.h"
#include "booster/checkpoint/training/present_state.h"
#include "booster/checkpoint/training/random_streams.h"
#include "booster/checkpoint/training/resume_rules.h"
#include "booster/checkpoint/training/whole_tensors.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "core/tensor/grad_mode.h"
#include "parallel/groups/gather_text.h"

#include <span>

namespace booster {
namespace {

using Json = nlohmann::json;

constexpr const char* what_fails = "resume";

// A checkpoint's parts, found right, and not yet in force.
struct Incoming {
  TrainingState state;
  std::vector<SettingChange> changes;
  TensorMap held[std::size(tensor_kinds)];  // what this rank holds, by kind
  std::function<void()> load_optimizer;
  std::vector<RandomState> streams;

  TensorMap& of(TensorKind kind) { return held[static_cast<size_t>(kind)]; }
};

// What others say of a checkpoint's contents, as an error of the checkpoint.
template <class F>
auto blaming(const std::string& what, F&& load) {
  try {
    return load();
  } catch (const Error& error) {
    fail_data("{}: {}", what, error.what());
  }
}

TrainingState read_state(const Json& json, int64_t step, const std::string& what) {
  TrainingState state = training_state_from(json, what + "/state.json");
  if (state.step != step) {
    fail_data("{}: its manifest is of another step; got {}, want {}", what, step, state.step);
  }
  return state;
}

// Compares and takes over all numbers but those of tensors.
void read_numbers(const Session& session, const Boosted& boosted, const Json& settings,
                  const std::string& what, Incoming& in) {
  const Group group = session.plugin->group();
  TrainingState now = present_state(session, boosted, settings);
  now.optimizer = session.optimizer.state_dict();
  now.random = random_streams(group);
  uint64_t part = 0;
  run_together(group, what_fails, [&] {
    check_same_training(in.state, now, what);
    part = order_part(boosted.dataloader, in.state.position.at.epoch);
  });
  now.order = order_of_ranks(part, boosted.dataloader, group);
  run_together(group, what_fails, [&] {
    check_same_order(in.state, now, what);
    in.state.position.at =
        moved_position(in.state.position, now.position, now.data.samples, what);
    in.changes = blaming(what, [&] { return adopt_changes(in.state, now, session.optimizer); });
    in.streams = streams_to_resume(in.state.random, now.random);
  });
}

// What this rank holds of some whole tensors; plugins may use the group.
TensorMap split(const Session& session, TensorKind kind, const TensorMap& whole) {
  switch (kind) {
    case TensorKind::model: return split_model(session, whole);
    case TensorKind::optimizer: return split_optimizer(session, whole);
    default: return whole;
  }
}

// File by file, so that no rank has more of the whole at once than one of them.
void read_tensors(Session& session, const CheckpointReader& reader, const std::string& what,
                  Incoming& in) {
  const Group group = session.plugin->group();
  for (const TensorKind kind : tensor_kinds) {
    std::vector<std::string> files;
    finish_together(group, what_fails, [&] { files = reader.files(kind); });
    for (const std::string& file : files) {
      TensorMap whole;
      finish_together(group, what_fails, [&] { whole = reader.load(kind, file); });
      run_together(group, what_fails, [&] {
        blaming(what, [&] { in.of(kind).merge(split(session, kind, whole)); });
      });
    }
  }
  run_together(group, what_fails, [&] {
    TensorMap& precision = in.of(TensorKind::precision);
    precision = split_precision(session, precision);
    check_held(session, in.of(TensorKind::model), precision, what);
    in.state.optimizer.steps = split_steps(session, in.state.optimizer.steps);
    in.state.optimizer.tensors = std::move(in.of(TensorKind::optimizer));
    in.load_optimizer =
        blaming(what, [&] { return session.optimizer.prepare_load(in.state.optimizer); });
    in.state.optimizer.tensors.clear();
  });
}

// Puts the numbers that schedule and strategy may refuse in force, or none of them.
void try_numbers(Session& session, Boosted& boosted, const TrainingState& state) {
  Optimizer& optimizer = session.optimizer;
  const LRSchedulerState before = boosted.lr_scheduler.state_dict();
  std::vector<OptimizerOptions> options;
  for (int group = 0; group < optimizer.group_count(); ++group)
    options.push_back(optimizer.options(group));
  boosted.lr_scheduler.load_state_dict(state.schedule);
  try {
    session.precision->load(state.precision_state);
  } catch (...) {
    boosted.lr_scheduler.load_state_dict(before);
    for (size_t group = 0; group < options.size(); ++group)
      optimizer.set_options(static_cast<int>(group), options[group]);
    throw;
  }
}

// Nothing fails behind try_numbers. The order counts: masters are put into parameters last, and the
// schedule's rate into the optimizer's options.
void put_in_force(Session& session, Boosted& boosted, Incoming& in, const std::string& what) {
  const NoGradGuard no_grad;
  settle(session);
  blaming(what, [&] { try_numbers(session, boosted, in.state); });
  assign_held(session, in.of(TensorKind::model), in.of(TensorKind::precision));
  in.load_optimizer();
  boosted.lr_scheduler.load_state_dict(in.state.schedule);
  boosted.dataloader.load_state(in.state.position.at);
  default_generator().set_state(in.streams[static_cast<size_t>(session.plugin->group().rank())]);
  session.zero_grad();  // gradients from before belong to other weights
}

std::string manifest_hash(const std::filesystem::path& folder) {
  const std::string text = read_file(folder / manifest_name, size_t{16} << 20);
  return sha256(std::as_bytes(std::span(text)));
}

// Rank 0's choice: the name of the newest whole checkpoint and its manifest's hash; "" for none.
std::pair<std::string, std::string> choose(const std::filesystem::path& root, const Group& group,
                                           const std::function<void(const std::string&)>& report) {
  std::string chosen;
  std::vector<std::string> lines;  // told on the caller's thread
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

}  // namespace

std::optional<Resumed> resume_training(const std::filesystem::path& root, Boosted& boosted,
                                       const std::function<void(const std::string&)>& report,
                                       const Json& settings) {
  Session& session = boosted.model.session();
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
    in.state = read_state(reader->state(), reader->manifest().step, what);
  });
  read_numbers(session, boosted, settings, what, in);
  read_tensors(session, *reader, what, in);
  put_in_force(session, boosted, in, what);
  for (const auto& [setting, before, value] : in.changes)
    if (group.rank() == 0)
      report(fmt::format("{}: changed from {} to {}; the new value counts", setting, before,
                         value));
  return Resumed{in.state.step, static_cast<int64_t>(in.state.position.at.epoch), in.state.extra,
                 in.changes};
}

}  // namespace booster
