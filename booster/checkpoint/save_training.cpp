#include "booster/checkpoint/async_save.h"
#include "booster/checkpoint/training/finish_together.h"
#include "booster/checkpoint/training/present_state.h"
#include "booster/checkpoint/training/random_streams.h"
#include "booster/checkpoint/training/whole_tensors.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "parallel/rank_notes.h"

namespace booster {
namespace {

using Json = nlohmann::json;

constexpr const char* what = "checkpoint";

void on_rank_0(const Group& group, const std::function<void()>& work) {
  finish_together(group, what, group.rank() == 0 ? work : std::function<void()>());
}

void check_progress(const Progress& progress, const SaveOptions& options) {
  check(progress.extra.is_object() && progress.settings.is_object(),
        "save_training: extra and settings; got {} and {}, want objects",
        progress.extra.type_name(), progress.settings.type_name());
  check_save(progress.step, options, {{"extra", progress.extra}, {"settings", progress.settings}});
}

// Hands all tensors to `out`; the numbers, whole on rank 0.
TrainingState collect(const Session& session, const Boosted& boosted, const Progress& progress,
                      const WholeTensors& out) {
  const Group group = session.plugin->group();
  TrainingState state = present_state(session, boosted, progress.settings);
  state.step = progress.step;
  state.extra = progress.extra;
  join_model(session, out);
  const auto steps = join_optimizer(session, out);
  state.optimizer = session.optimizer.state_dict();
  state.optimizer.tensors.clear();
  state.optimizer.steps = steps;
  join_precision(session, out);
  state.order = order_of_ranks(order_part(boosted.dataloader, state.position.at.epoch),
                               boosted.dataloader, group);
  state.random = random_streams(group);
  return state;
}

Json about(const Session& session) {
  return {{"ranks", session.plugin->group().size()},
          {"plugin", session.plugin->name()},
          {"precision", session.precision->name()}};
}

// A checkpoint in memory that nobody else writes to.
struct Copied {
  struct Part {
    TensorKind kind;
    std::string name;
    Tensor tensor;
  };
  std::vector<Part> parts;
  std::exception_ptr error;  // no memory was left, say

  void add(TensorKind kind, const std::string& name, const Tensor& whole) {
    if (error) return;
    try {
      const Tensor here = whole.to(Device{});
      const bool is_copy = whole.device() != Device{};
      parts.push_back({kind, name, is_copy ? here : untracked::contiguous(here).clone()});
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
      if (writer.is_full()) writer.write();  // gives memory back on the way
    }
    writer.commit(state, about);
  }
};

}  // namespace

void save_training(const std::filesystem::path& root, Boosted& boosted, const Progress& progress,
                   const SaveOptions& options) {
  check_progress(progress, options);
  Session& session = boosted.model.session();
  const Group group = session.plugin->group();
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
  const TrainingState state = collect(session, boosted, progress, {take, write_if_full});
  on_rank_0(group, [&] { writer->commit(to_json(state), about(session)); });
  session.pass_on_all_notes();
}

PendingSave save_training_async(const std::filesystem::path& root, Boosted& boosted,
                                const Progress& progress, const SaveOptions& options) {
  check_progress(progress, options);
  Session& session = boosted.model.session();
  const Group group = session.plugin->group();
  finish_last_save(session);
  auto copied = std::make_shared<Copied>();
  const auto take = [&](TensorKind kind, const std::string& name, const Tensor& whole) {
    copied->add(kind, name, whole);
  };
  const TrainingState state = collect(session, boosted, progress, {take});
  const auto write = [=, step = progress.step, state = to_json(state), about = about(session)] {
    const SavingNote saving("a checkpoint");
    copied->write(root, options, step, state, about);
  };
  PendingSave pending = begin_save(session, group.rank() == 0 ? write : std::function<void()>());
  session.pass_on_all_notes();
  return pending;
}

}  // namespace booster
