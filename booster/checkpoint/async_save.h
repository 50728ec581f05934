// Writing a checkpoint while training continues.
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
#pragma once

#include "booster/checkpoint/training_checkpoint.h"

#include <functional>
#include <memory>
#include <utility>

namespace booster {

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
[[nodiscard]] PendingSave save_training_async(const std::filesystem::path& root, Boosted& boosted,
                                              const Progress& progress,
                                              const SaveOptions& options = {});
[[nodiscard]] PendingSave save_training_async(const std::filesystem::path& root,
                                              const BoostedGroup& group, const GroupParts& parts,
                                              const Progress& progress,
                                              const SaveOptions& options = {});

// --- building blocks of the saves
//
// Runs `write` on a thread; does nothing on this rank if `write` is empty.
PendingSave begin_save(Session& session, std::function<void()> write);
// Waits for the last save of this training, unless wait() was called for it.
void finish_last_save(Session& session);

}  // namespace booster
