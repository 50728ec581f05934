// A checkpoint that is written while training goes on.
//
//   PendingSave saving;
//   for (...) {
//     ...
//     if (++step % 100 == 0) saving = save_training_async("out", boosted, {.step = step});
//   }
//   saving.wait();
//
// The numbers are copied, to rank 0, before the call returns; from then on a thread of rank 0
// writes, and nothing it does touches the training or its groups of ranks. Rank 0 needs memory for
// the whole checkpoint until it is written. A kill leaves the checkpoints from before; the end of
// the program, a save that follows and the end of the handle wait for the thread.
#pragma once

#include "booster/checkpoint/training_checkpoint.h"

#include <functional>
#include <memory>
#include <utility>

namespace booster {

// A handle on a save; its end waits for the thread. For the thread that trains.
class PendingSave {
 public:
  PendingSave() = default;  // done, nothing to wait for
  ~PendingSave();
  PendingSave(PendingSave&&) = default;
  PendingSave& operator=(PendingSave&& other) {
    std::swap(save_, other.save_);  // the one from before ends with `other`
    return *this;
  }
  // True if wait() need not wait for the disk; the same on all ranks. All ranks call it.
  bool ready() const;
  // Until the checkpoint is there. What failed is an Error on all ranks, those of save_training;
  // thrown once: here, or by the next save of this training if nobody waited. All ranks call it.
  void wait();

 private:
  friend PendingSave begin_save(Session&, std::function<void()>);
  std::shared_ptr<class BackgroundSave> save_;
};

// As save_training, but returns as soon as the numbers are copied.
[[nodiscard]] PendingSave save_training_async(const std::filesystem::path& root, Boosted& boosted,
                                              const Progress& progress,
                                              const SaveOptions& options = {});
[[nodiscard]] PendingSave save_training_async(const std::filesystem::path& root,
                                              const BoostedGroup& group, const GroupParts& parts,
                                              const Progress& progress,
                                              const SaveOptions& options = {});

// --- what the saves are made of
// Runs `write` (empty: none here) on a thread.
PendingSave begin_save(Session& session, std::function<void()> write);
// Waits for the last save of this training, if there was one that nobody waited for.
void finish_last_save(Session& session);

}  // namespace booster
