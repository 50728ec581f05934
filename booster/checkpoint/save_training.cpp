#include "booster/checkpoint/async_save.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/training/finish_together.h"
#include "booster/checkpoint/training/random_streams.h"
#include "booster/checkpoint/training/whole_tensors.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "booster/checkpoint/training_parts.h"
#include "booster/training/session.h"
#include "parallel/rendezvous/rank_notes.h"

namespace booster {
namespace {

using Json = nlohmann::json;

constexpr const char* activity = "checkpoint";

void on_rank_0(const Group& group, const std::function<void()>& work) {
  finish_together(group, activity, group.rank() == 0 ? work : std::function<void()>());
}

void check_progress(const Progress& progress, const SaveOptions& options) {
  check(progress.extra.is_object() && progress.settings.is_object(),
        "save_training: extra and settings; got {} and {}, want objects",
        progress.extra.type_name(), progress.settings.type_name());
  check_save(progress.step, options, {{"extra", progress.extra}, {"settings", progress.settings}});
}

// Collects one optimizer's state; passes its tensors to `out`.
TrainingState collect_optimizer(const TrainingParts& parts, size_t i, const Progress& progress,
                                const WholeTensors& out) {
  const Session& session = *parts.sessions[i];
  TrainingState state = present_state(parts, i, progress.settings);
  state.step = progress.step;
  state.extra = progress.extra;
  const auto take = [&](TensorKind kind, const std::string& name, const Tensor& whole) {
    out.take(kind, parts.prefix(i) + name, whole);
  };
  const auto steps = join_optimizer(session, {take, out.after_each});
  state.optimizer = session.optimizer.state_dict();
  state.optimizer.tensors.clear();
  state.optimizer.steps = steps;
  return state;
}

// Passes all tensors to `out` and returns the JSON state, which is complete on rank 0.
Json collect(const TrainingParts& parts, const Progress& progress, const WholeTensors& out) {
  const Session& session = parts.session();
  const Group group = session.plugin->group();
  join_model(session, out);
  std::vector<TrainingState> states;
  for (size_t i = 0; i < parts.sessions.size(); ++i)
    states.push_back(collect_optimizer(parts, i, progress, out));
  join_precision(session, out);
  if (group.rank() == 0)
    for (const auto& [name, tensor] : progress.tensors)
      out.take(TensorKind::program, name, tensor.detach());
  uint64_t order = 0;
  std::string places;
  if (const auto& loader = parts.dataloader) {
    const LoaderState& at = states[0].position.at;
    order = order_of_ranks(order_part(*loader, at.epoch), *loader, group);
    places = places_of_ranks(at.stream, *loader, group);
  }
  const std::vector<RandomState> streams = random_streams(group);
  for (TrainingState& state : states) {
    state.order = order;
    state.position.at.stream = places;
    state.random = streams;
  }
  return to_json(parts, states);
}

Json about(const Session& session) {
  return {{"ranks", session.plugin->group().size()},
          {"plugin", session.plugin->name()},
          {"precision", session.precision->name()}};
}

// A checkpoint in memory, written by one thread only.
struct Copied {
  struct Part {
    TensorKind kind;
    std::string name;
    Tensor tensor;
  };
  std::vector<Part> parts;
  std::exception_ptr error;  // for example out of memory

  void add(TensorKind kind, const std::string& name, const Tensor& whole) {
    if (error) return;
    try {
      const Tensor here = untracked::to(whole, Device{});
      const bool is_copy = whole.device() != Device{};
      parts.push_back({kind, name, is_copy ? here : untracked::clone(untracked::contiguous(here))});
    } catch (...) {
      error = std::current_exception();
    }
  }
  void write(const std::filesystem::path& root, const SaveOptions& options, int64_t step,
             const Json& state, const Json& about) {
    if (error) std::rethrow_exception(error);
    CheckpointWriter writer(root, step, options);
    for (Part& part : parts) {
      writer.add(part.kind, part.name, std::exchange(part.tensor, Tensor()));
      if (writer.is_full()) writer.write();  // frees memory early
    }
    writer.commit(state, about);
  }
};

void save(const std::filesystem::path& root, const TrainingParts& parts, const Progress& progress,
          const SaveOptions& options) {
  check_progress(progress, options);
  Session& session = parts.session();
  const Group group = session.plugin->group();
  session.end_iteration();
  finish_last_save(session);
  const SavingNote saving("a checkpoint");
  std::unique_ptr<CheckpointWriter> writer;  // on rank 0
  on_rank_0(group, [&] {
    writer = std::make_unique<CheckpointWriter>(root, progress.step, options);
  });
  const auto take = [&](TensorKind kind, const std::string& name, const Tensor& whole) {
    writer->add(kind, name, whole);
  };
  const auto write_if_full = [&] {
    std::vector<int64_t> full = {writer && writer->is_full()};
    group.all_reduce(full, CollectiveOp::max);
    if (full[0]) on_rank_0(group, [&] { writer->write(); });
  };
  const Json state = collect(parts, progress, {take, write_if_full});
  on_rank_0(group, [&] { writer->commit(state, about(session)); });
  session.pass_on_all_notes();
}

PendingSave save_async(const std::filesystem::path& root, const TrainingParts& parts,
                       const Progress& progress, const SaveOptions& options) {
  check_progress(progress, options);
  Session& session = parts.session();
  const Group group = session.plugin->group();
  session.end_iteration();
  finish_last_save(session);
  auto copied = std::make_shared<Copied>();
  const auto take = [&](TensorKind kind, const std::string& name, const Tensor& whole) {
    copied->add(kind, name, whole);
  };
  const Json state = collect(parts, progress, {take});
  const auto write = [=, step = progress.step, about = about(session)] {
    const SavingNote saving("a checkpoint");
    copied->write(root, options, step, state, about);
  };
  PendingSave pending = begin_save(session, group.rank() == 0 ? write : std::function<void()>());
  session.pass_on_all_notes();
  return pending;
}

}  // namespace

void save_training(const std::filesystem::path& root, const TrainingHandles& training,
                   const Progress& progress, const SaveOptions& options) {
  save(root, TrainingParts(training), progress, options);
}

PendingSave save_training_async(const std::filesystem::path& root,
                                const TrainingHandles& training, const Progress& progress,
                                const SaveOptions& options) {
  return save_async(root, TrainingParts(training), progress, options);
}

}  // namespace booster
