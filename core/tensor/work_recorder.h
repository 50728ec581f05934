// Records a thread's captured work (captured_work.h): the memory that it makes, uses and changes,
// and the checks that it defers. The work belongs to one thread, but another thread may release its
// tensors.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace booster {

// Data for a replay.
struct RecordedMemory {
  std::vector<Reference<Storage>> used;     // made earlier; kept, since replays use it
  std::vector<Reference<Storage>> changed;  // by each replay; includes new memory of the work
};
struct RecordedCheck {
  Tensor worst;  // largest result of all replays since the last reset to -1
  std::function<void(int64_t)> raise;
};

class WorkRecorder {
 public:
  // Records for the calling thread, while it lives.
  WorkRecorder();
  ~WorkRecorder();
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;
  // Returns null if the calling thread records nothing.
  static WorkRecorder* current();

  void made(Storage& storage);
  void gone(Storage& storage);
  void used(const Reference<Storage>& storage);
  void changed(const Reference<Storage>& storage);
  // See check_later.
  void put_off_check(const Tensor& found, std::function<void(int64_t)> raise);

  // Return what was recorded, at the end.
  RecordedMemory take_memory();
  std::vector<RecordedCheck> take_checks() { return std::move(checks_); }

 private:
  void let_go();

  std::mutex mutex_;
  std::unordered_set<Storage*> made_;
  std::unordered_map<Storage*, Reference<Storage>> used_, changed_;  // made before
  std::vector<RecordedCheck> checks_;
};

}  // namespace booster
