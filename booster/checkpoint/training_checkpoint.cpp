#include "booster/checkpoint/training_checkpoint.h"

#include "booster/checkpoint/file.h"
#include "booster/checkpoint/finish_together.h"
#include "booster/checkpoint/rank_tensors.h"
#include "booster/checkpoint/sha256.h"
#include "booster/checkpoint/training_state.h"
#include "core/autograd/functions.h"
#include "core/tensor/absence.h"
#include "core/tensor/grad_mode.h"
#include "core/tensor/random.h"
#include "parallel/groups/gather_text.h"
#include "parallel/rank_notes.h"

#include <bit>
#include <span>
#include <string_view>

namespace booster {
namespace {

using Json = nlohmann::json;

TensorMap as_map(const StateDict& state) {
  TensorMap tensors;
  for (const auto& [name, tensor] : state) tensors.emplace(name, tensor.detach());
  return tensors;
}

// The dtype in which a tensor of the model is saved.
DType saved_dtype(const Session& session, const Tensor& tensor) {
  return is_floating(tensor.dtype()) ? session.precision->saved_dtype().value_or(tensor.dtype())
                                     : tensor.dtype();
}

// The model's tensors for a checkpoint, whole on rank 0. All ranks call it.
StateDict joined_model(const Session& session) {
  StateDict tensors = session.model.state_dict();
  session.plugin->join(tensors);
  for (auto& [name, tensor] : tensors)
    tensor = untracked::cast(tensor, saved_dtype(session, tensor));
  return tensors;
}

// Shapes and dtypes of what this rank loads into the model, without numbers.
TensorMap wanted_model(const Session& session) {
  const LazyInit no_memory;
  TensorMap tensors;
  for (const auto& [name, tensor] : session.model.state_dict())
    tensors.emplace(name, empty(tensor.shape(), {saved_dtype(session, tensor), tensor.device()}));
  return tensors;
}

// From whole tensors to what this rank holds.
TensorMap split(const Session& session, const TensorMap& whole) {
  StateDict tensors;
  for (const auto& [name, tensor] : whole) tensors.push_back({name, tensor});
  session.plugin->split(tensors);
  return as_map(tensors);
}

// The model's tensors that joined_model() rounds.
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
  if (session.precision->state_differs_by_rank())
    own = tensors_of_ranks(own, session.plugin->group());
  else
    session.plugin->join(own);
  session.plugin->join(rounded);
  return as_one(own, rounded);
}

// From whole tensors to what this rank holds. A strategy that had numbers by rank, and has common
// ones now, takes rank 0's.
TensorMap split_precision(const Session& session, const TensorMap& whole) {
  const bool rounds = session.precision->saved_dtype().has_value();
  StateDict own, rounded;
  for (const auto& [name, tensor] : whole)
    if (rounds && name.starts_with(rounded_prefix))
      rounded.push_back({name.substr(rounded_prefix.size()), tensor});
    else own.push_back({name, tensor});
  const bool by_rank = session.precision->state_differs_by_rank();
  own = tensors_of_rank(own, by_rank ? session.plugin->group().rank() : 0);
  if (!by_rank) session.plugin->split(own);
  session.plugin->split(rounded);
  return as_one(own, rounded);
}

// Converts back from the saved dtype.
void load_model(const Session& session, const TensorMap& saved) {
  for (auto [name, tensor] : as_map(session.model.state_dict())) tensor.copy_(saved.at(name));
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

// Every rank's random stream, in rank order.
std::vector<RandomState> random_states(const Group& group) {
  const RandomState mine = default_generator().state();
  std::vector<int64_t> own = {std::bit_cast<int64_t>(mine.seed),
                              std::bit_cast<int64_t>(mine.offset)};
  std::vector<int64_t> all(own.size() * static_cast<size_t>(group.size()));
  group.all_gather(all, own);
  std::vector<RandomState> states;
  for (size_t i = 0; i < all.size(); i += 2)
    states.push_back({std::bit_cast<uint64_t>(all[i]), std::bit_cast<uint64_t>(all[i + 1])});
  return states;
}

uint64_t order_of(const DataLoader& loader, uint64_t epoch) {
  Fingerprint fingerprint;
  for (const int64_t index : loader.options().sampler->indices(epoch)) fingerprint.add(index);
  return fingerprint.value();
}

// That of the program now, without the optimizer's and the ranks' random streams. `epoch` is that
// whose order of samples is compared, on rank 0 alone.
TrainingState present_state(const Session& session, const Boosted& boosted, const Json& settings,
                            uint64_t epoch) {
  const DataLoaderOptions& options = boosted.dataloader.options();
  TrainingState state;
  state.settings = settings;
  state.plugin = session.plugin->name();
  state.precision = session.precision->name();
  state.precision_state = session.precision->state();
  state.first_precision_state = session.first_precision_state;
  state.schedule = boosted.lr_scheduler.state_dict();
  state.position = boosted.dataloader.state();
  state.batch_size = options.batch_size;
  state.seed = options.seed;
  state.shuffle = options.shuffle;
  state.drop_last = options.drop_last;
  state.data = boosted.dataloader.dataset().identity();
  if (session.plugin->group().rank() == 0) state.order = order_of(boosted.dataloader, epoch);
  return state;
}

}  // namespace

void save_training(const std::filesystem::path& root, Boosted& boosted, const Progress& progress,
                   int keep) {
  check(progress.extra.is_object() && progress.settings.is_object(),
        "save_training: extra and settings; got {} and {}, want objects",
        progress.extra.type_name(), progress.settings.type_name());
  const SavingNote saving("a checkpoint");
  Session& session = boosted.model.session();
  const Group group = session.plugin->group();
  const StateDict model = joined_model(session);
  const OptimizerState optimizer = joined_optimizer(session);
  const TensorMap precision = joined_precision(session);
  TrainingState state = present_state(session, boosted, progress.settings,
                                      boosted.dataloader.state().epoch);
  state.step = progress.step;
  state.extra = progress.extra;
  state.optimizer = optimizer;
  state.random = random_states(group);
  const auto write = [&] {
    CheckpointContents contents = {.step = progress.step,
                                   .model = as_map(model),
                                   .optimizer = optimizer.tensors,
                                   .precision = precision,
                                   .state = to_json(state)};
    contents.about = {{"ranks", group.size()},
                      {"plugin", session.plugin->name()},
                      {"precision", session.precision->name()}};
    save_checkpoint(root, contents, keep);
  };
  finish_together(group, "checkpoint", group.rank() == 0 ? write : std::function<void()>());
  session.pass_on_all_notes();
}

namespace {

// A checkpoint's parts, found right, and not yet in force.
struct Incoming {
  TrainingState state;
  std::vector<SettingChange> changes;
  TensorMap model, precision;  // what this rank holds
  std::function<void()> load_optimizer;
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

Incoming read_numbers(const Session& session, const Boosted& boosted,
                      const CheckpointContents& contents, const std::string& what,
                      const Json& settings) {
  Incoming in;
  in.state = training_state_from(contents.state, what + "/state.json");
  if (in.state.step != contents.step) {
    fail_data("{}: its manifest is of another step; got {}, want {}", what, contents.step,
              in.state.step);
  }
  TrainingState now = present_state(session, boosted, settings, in.state.position.epoch);
  now.optimizer = session.optimizer.state_dict();
  now.random.resize(static_cast<size_t>(session.plugin->group().size()));
  if (session.plugin->group().rank() > 0) now.order = in.state.order;
  check_same_training(in.state, now, what);
  const int64_t batches = boosted.dataloader.size();
  if (in.state.position.batch > batches) {
    fail_data("{}: no such position in the data; got batch {}, want 0 to {}", what,
              in.state.position.batch, batches);
  }
  in.changes = blaming(what, [&] { return adopt_changes(in.state, now, session.optimizer); });
  return in;
}

// Whole tensors become those that this rank holds; plugins may use the group.
void read_tensors(Session& session, CheckpointContents contents, const std::string& what,
                  Incoming& in) {
  in.model = split(session, contents.model);
  check_tensors(wanted_model(session), in.model, what);
  in.precision = split_precision(session, contents.precision);
  check_tensors(precision_tensors(session), in.precision, what + ": precision");
  for (const auto& [name, tensor] : contents.optimizer)
    if (name.ends_with(steps_suffix))
      fail_data("{}: optimizer: no such tensor; got {}", what, name);
  in.state.optimizer.tensors = std::move(contents.optimizer);
  StateDict tensors = with_steps(in.state.optimizer);
  session.plugin->split(tensors);
  set_tensors(in.state.optimizer, tensors);
  in.load_optimizer =
      blaming(what, [&] { return session.optimizer.prepare_load(in.state.optimizer); });
  in.state.optimizer.tensors.clear();
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
void put_in_force(Session& session, Boosted& boosted, const Incoming& in, const std::string& what) {
  const NoGradGuard no_grad;
  blaming(what, [&] { try_numbers(session, boosted, in.state); });
  load_model(session, in.model);
  assign_tensors(precision_tensors(session), in.precision, what);
  in.load_optimizer();
  boosted.lr_scheduler.load_state_dict(in.state.schedule);
  boosted.dataloader.load_state(in.state.position);
  default_generator().set_state(
      in.state.random[static_cast<size_t>(session.plugin->group().rank())]);
  session.zero_grad();  // gradients from before belong to other weights
}

// Runs on this thread; an error on any rank is one on all.
template <class F>
void together(const Group& group, F&& work) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  fail_together(group, "resume", error);
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
    finish_together(group, "resume", group.rank() == 0 ? look : std::function<void()>());
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
  const auto [name, manifest] = choose(root, group, report);
  if (name.empty()) return {};
  const std::filesystem::path folder = root / name;
  const std::string what = folder.string();
  CheckpointContents contents;
  Incoming in;
  finish_together(group, "resume", [&, &manifest = manifest] {
    if (manifest_hash(folder) != manifest)
      fail_data("{}: another checkpoint than that of rank 0; want one folder for all ranks", what);
    contents = load_checkpoint(folder);
  });
  together(group, [&] { in = read_numbers(session, boosted, contents, what, settings); });
  together(group, [&] { read_tensors(session, std::move(contents), what, in); });
  put_in_force(session, boosted, in, what);
  for (const auto& [setting, before, now] : in.changes)
    if (group.rank() == 0)
      report(fmt::format("{}: changed from {} to {}; the new value counts", setting, before, now));
  return Resumed{in.state.step, static_cast<int64_t>(in.state.position.epoch), in.state.extra,
                 in.changes};
}

}  // namespace booster
