// Saving and resuming a training run: all state that affects what comes next, so that a resumed run
// continues bit for bit on the same layout, and goes on in any other: docs/checkpoints.md.
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
// Saved in the body of the loop over the loader, it goes on behind that batch; saved behind the
// loop, at the start of the next epoch.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/training/setting_change.h"
#include "booster/checkpoint/training/state_reader.h"
#include "booster/training/boosted.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace booster {

// What a program says of its run, in addition to the state of its parts.
struct Progress {
  int64_t step = 0;  // optimizer steps taken or skipped
  nlohmann::json extra = nlohmann::json::object();  // the program's own state
  // The program's own settings, by name; those that differ when it resumes are told.
  nlohmann::json settings = nlohmann::json::object();
  // The program's own tensors, those of rank 0. Averages of weights (ParameterAverage) need not be
  // among them: they are the optimizer's.
  std::map<std::string, Tensor> tensors = {};
};

// What moves with a group of models and optimizers. Nothing is needed.
struct GroupParts {
  std::optional<DataLoader> dataloader = {};
  std::vector<LRScheduler> lr_schedulers = {};  // one for each optimizer, or none
};

struct Resumed {
  int64_t step = 0;
  int64_t epoch = 0;  // the loader's: in which the next loop over it goes on
  nlohmann::json extra;  // nobody has checked it: extra_values() reads it value by value
  std::map<std::string, Tensor> tensors;  // the program's own, on the CPU, on all ranks
  std::vector<SettingChange> changes;  // settings that are others now, and in force
  std::filesystem::path folder;        // of the checkpoint

  // `extra`, whose errors name the checkpoint's file. Must not outlive this.
  StateReader extra_values() const;
};

// Writes ROOT/step-N: model (safetensors), optimizer, scheduler, loss scaler, loader position and
// every rank's random stream. All ranks must call it; rank 0 writes, and the others wait for it
// however long it takes. Rank 0 has no more than about options.size_per_shard of what other ranks
// hold, and those nothing that is not theirs. Errors are those of save_checkpoint, on all ranks,
// and leave everything as it was: a loop may go on and save later.
void save_training(const std::filesystem::path& root, Boosted& boosted, const Progress& progress,
                   const SaveOptions& options = {});
// The same of models and optimizers that were boosted in one call, as one checkpoint (a GAN). Error
// for a plugin that gives ranks parts of them.
//
//   save_training("out", gan, {.dataloader = data, .lr_schedulers = {lr_g, lr_d}}, {.step = step});
void save_training(const std::filesystem::path& root, const BoostedGroup& group,
                   const GroupParts& parts, const Progress& progress,
                   const SaveOptions& options = {});

// Loads the newest complete checkpoint under `root` into the boosted objects; nothing if there is
// none. All ranks must call it: rank 0 chooses the checkpoint, and all load that one.
//
// Options of the optimizer, strategy or schedule that the program constructs otherwise than the one
// that saved count from now on, and so do its own `settings`, the plugin, the number of ranks and
// the batch size; each is told to `report`, on rank 0, in a line with its name, the old and the new
// value. An Error of kind data are another optimizer or schedule, precision, model, seed or data
// set, and a batch size or number of ranks of whose steps the samples done in the epoch are not a
// whole number; it names some of which they are. All or nothing: after an error on any rank, all
// ranks have it and nothing is changed.
std::optional<Resumed> resume_training(const std::filesystem::path& root, Boosted& boosted,
                                       const std::function<void(const std::string&)>& report,
                                       const nlohmann::json& settings = nlohmann::json::object());
// The same of a group, with the parts that it was saved with.
std::optional<Resumed> resume_training(const std::filesystem::path& root,
                                       const BoostedGroup& group, const GroupParts& parts,
                                       const std::function<void(const std::string&)>& report,
                                       const nlohmann::json& settings = nlohmann::json::object());

}  // namespace booster
