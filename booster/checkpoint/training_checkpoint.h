// Saving and resuming a training run. A checkpoint holds all state that affects what comes next. A
// resumed run continues bit for bit on the same layout, and continues on any other
// (docs/checkpoints.md).
//
//   int64_t step = 0, epoch = 0;
//   if (const auto resumed = resume_training("out", boosted, print_line)) {
//     step = resumed->step;
//     epoch = resumed->epoch;
//   }
//   for (; epoch < epochs; ++epoch) {
//     for (auto& [image, label] : data) {
//       ...
//       if (++step % 100 == 0) save_training("out", boosted, {.step = step});
//     }
//     save_training("out", boosted, {.step = step});
//   }
//
// A save inside the loop over the loader resumes after that batch. A save after the loop resumes at
// the start of the next epoch.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/training/boosted.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace booster {

// The program's own part of a checkpoint, in addition to the state of the boosted objects.
struct Progress {
  int64_t step = 0;                                 // optimizer steps taken or skipped
  nlohmann::json extra = nlohmann::json::object();  // the program's own state
  // The program's own settings, by name; resume_training reports those that differ.
  nlohmann::json settings = nlohmann::json::object();
  // The program's own tensors; rank 0's are saved. Averages of weights (ParameterAverage) are saved
  // with the optimizer and need not be listed.
  std::map<std::string, Tensor> tensors = {};
};

// Objects that advance together with a group of models and optimizers. All are optional.
struct GroupParts {
  std::optional<DataLoader> dataloader = {};
  std::vector<LRScheduler> lr_schedulers = {};  // one for each optimizer, or none
};

// What a checkpoint of a training covers: all that one call of boost returned. Made from any result
// of it.
struct TrainingHandles {
  std::vector<BoostedOptimizer> optimizers = {};  // each knows the models
  GroupParts parts = {};
  bool is_group = false;  // several models and optimizers, boosted together

  TrainingHandles(const Boosted& boosted);
  TrainingHandles(const BoostedPair& boosted) : optimizers{boosted.optimizer} {}
  TrainingHandles(const BoostedTriple& boosted) : optimizers{boosted.optimizer} {}
  template <class... Parts>
  TrainingHandles(const std::tuple<BoostedModel, BoostedOptimizer, Parts...>& boosted)
      : optimizers{std::get<1>(boosted)} {
    (add(std::get<Parts>(boosted)), ...);
  }
  TrainingHandles(const BoostedGroup& group, const GroupParts& parts)
      : optimizers(group.optimizers), parts(parts), is_group(true) {}

 private:
  void add(const Criterion&) {}
  void add(const DataLoader& loader) { parts.dataloader = loader; }
  void add(const LRScheduler& scheduler) { parts.lr_schedulers = {scheduler}; }
};

struct Resumed {
  int64_t step = 0;
  int64_t epoch = 0;     // the loader's epoch, in which the next loop over it continues
  nlohmann::json extra;  // unchecked; extra_values() reads and checks it value by value
  std::map<std::string, Tensor> tensors;  // the program's own, on the CPU, on all ranks
  std::vector<SettingChange> changes;     // settings that differ from the saved ones, now in force
  std::filesystem::path folder;           // of the checkpoint

  // Returns a checked view of `extra`; errors name the checkpoint's file. Must not outlive this.
  StateReader extra_values() const;
};

// Writes ROOT/step-N: model (safetensors), optimizer, scheduler, loss scaler, loader position and
// every rank's random stream. Collective: rank 0 writes, and the others wait for it without a time
// limit. Rank 0 holds at most about options.size_per_shard of other ranks' tensors at a time; other
// ranks hold only their own. Throws the errors of CheckpointWriter, on all ranks; they change
// nothing: a loop may continue and save later.
void save_training(const std::filesystem::path& root, const TrainingHandles& training,
                   const Progress& progress, const SaveOptions& options = {});
// The same for models and optimizers that were boosted in one call (a GAN), as one checkpoint.
//
//   save_training("out", gan, {.dataloader = data, .lr_schedulers = {lr_g, lr_d}}, {.step = step});
inline void save_training(const std::filesystem::path& root, const BoostedGroup& group,
                          const GroupParts& parts, const Progress& progress,
                          const SaveOptions& options = {}) {
  save_training(root, TrainingHandles(group, parts), progress, options);
}

// Loads the newest complete checkpoint under `root` into the boosted objects; returns nothing if
// there is none. Collective: rank 0 chooses the checkpoint, and all ranks load it.
//
// The program's current values replace the saved ones for: options of optimizer, strategy and
// schedule, its own `settings`, the plugin, the number of ranks and the batch size. For each that
// changed, rank 0 calls `report` with a line that has its name, the old and the new value.
//
// Throws an Error of kind data if the optimizer or schedule type, precision, model, seed or data
// set differs. The same holds for a batch size or number of ranks with which the samples done in
// the epoch are not a whole number of steps; the error then lists values that fit. All or nothing:
// after an error on any rank, all ranks throw and nothing is changed.
std::optional<Resumed> resume_training(const std::filesystem::path& root,
                                       const TrainingHandles& training,
                                       const std::function<void(const std::string&)>& report,
                                       const nlohmann::json& settings = nlohmann::json::object());
// The same for a group, with the parts that it was saved with.
inline std::optional<Resumed> resume_training(
    const std::filesystem::path& root, const BoostedGroup& group, const GroupParts& parts,
    const std::function<void(const std::string&)>& report,
    const nlohmann::json& settings = nlohmann::json::object()) {
  return resume_training(root, TrainingHandles(group, parts), report, settings);
}

// Copies a checkpoint's averaged weights (ParameterAverage) into the parameters. Buffers such as
// batch-norm statistics keep their values. Collective; an error on any rank is an error on all, and
// changes nothing.
void load_averages(const BoostedModel& model, const std::filesystem::path& checkpoint);

// --- writing a checkpoint while training continues.
//
//   PendingSave saving;
//   for (...) {
//     ...
//     if (++step % 100 == 0) saving = save_training_async("out", boosted, {.step = step});
//   }
//   saving.wait();
//
// The call returns once the values are copied to rank 0. From then on a thread of rank 0 writes
// them; it uses neither the training nor its groups of ranks. Rank 0 needs memory for the whole
// checkpoint until it is written. If the process is killed, earlier checkpoints remain. Three
// things wait for the thread: the end of the program, the next save, and the end of the handle.

// A handle on a save; its destructor waits for the thread. For the thread that trains.
class PendingSave {
 public:
  PendingSave() = default;  // done, nothing to wait for
  ~PendingSave();
  PendingSave(PendingSave&&) = default;
  PendingSave& operator=(PendingSave&& other) {
    std::swap(save_, other.save_);  // the previous save ends with `other`
    return *this;
  }
  // Returns true if wait() will not wait for the disk. Collective; the result is the same on all
  // ranks.
  bool ready() const;
  // Waits until the checkpoint is written. Throws an Error on all ranks if the save failed (the
  // errors of save_training). Each failure is thrown once: here, or, if no one waited, by the next
  // save of this training. Collective.
  void wait();

 private:
  friend PendingSave begin_save(Session&, std::function<void()>);
  std::shared_ptr<class BackgroundSave> save_;
};

// Like save_training, but returns as soon as the values are copied.
[[nodiscard]] PendingSave save_training_async(const std::filesystem::path& root,
                                              const TrainingHandles& training,
                                              const Progress& progress,
                                              const SaveOptions& options = {});
[[nodiscard]] inline PendingSave save_training_async(const std::filesystem::path& root,
                                                     const BoostedGroup& group,
                                                     const GroupParts& parts,
                                                     const Progress& progress,
                                                     const SaveOptions& options = {}) {
  return save_training_async(root, TrainingHandles(group, parts), progress, options);
}

// --- the weights of a model alone, as Hugging Face's libraries keep them: a safetensors file, or a
// folder with several and an index. Booster::save_model and load_model call these.

struct SaveModelOptions {
  bool shard = false;  // write a folder; with an index if the model takes more than one file
  double size_per_shard = 1024;  // MiB of tensors per file
  std::string prefix = {};       // variant in the file names: model.PREFIX.safetensors
};

// All ranks call both functions; an error on any rank is thrown on all.
void save_model(const BoostedModel& model, const std::filesystem::path& checkpoint,
                const SaveModelOptions& options);
NameDifferences load_model(const BoostedModel& model, const std::filesystem::path& checkpoint,
                           bool strict);
// The same for a model that is not boosted, on this rank alone.
NameDifferences load_model(const Model& model, const std::filesystem::path& checkpoint,
                           bool strict = true);

}  // namespace booster
