#include "booster/checkpoint/async_save.h"

#include "booster/checkpoint/training/finish_together.h"
#include "booster/training/session.h"
#include "platform/forks.h"
#include "platform/warn.h"

#include <chrono>
#include <mutex>
#include <vector>

namespace booster {

// The future comes from std::async: its destructor waits for the thread.
class BackgroundSave {
 public:
  BackgroundSave(const Group& group, std::function<void()> write) : group_(group) {
    try {
      if (write) writing_ = std::async(std::launch::async, std::move(write));
    } catch (...) {  // no thread could be started
      std::promise<void> failed;
      failed.set_exception(std::current_exception());
      writing_ = failed.get_future();
    }
  }
  // Reports a failure that no one waited for; otherwise it would be lost.
  ~BackgroundSave() {
    try {
      if (writing_.valid()) writing_.get();
    } catch (const std::exception& error) {
      warn(fmt::format("checkpoint: not saved: {}", error.what()));
    }
  }

  bool is_ready() const {
    if (finished_) return true;
    const bool here = !writing_.valid() ||
                      writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    std::vector<int64_t> busy = {!here};
    group_.all_reduce(busy, CollectiveOp::max);
    return busy[0] == 0;
  }
  void finish() {
    if (std::exchange(finished_, true)) return;
    finish_together(group_, "checkpoint", std::move(writing_));
  }
  // A child of fork has no thread to wait for.
  void wait_here() const {
    if (writing_.valid() && forks_ == fork_count()) writing_.wait();
  }

 private:
  Group group_;
  std::future<void> writing_;
  bool finished_ = false;
  const int forks_ = fork_count();
};

namespace {

// A program may end by std::exit, which destroys none of its handles. This waits for threads that
// still write then.
class AtExit {
 public:
  ~AtExit() {
    for (const auto& save : saves_)
      if (const auto running = save.lock()) running->wait_here();
  }
  void add(const std::shared_ptr<BackgroundSave>& save) {
    const std::lock_guard lock(mutex_);
    std::erase_if(saves_, [](const auto& other) { return other.expired(); });
    saves_.push_back(save);
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<BackgroundSave>> saves_;
};

}  // namespace

PendingSave::~PendingSave() {
  if (save_) save_->wait_here();
}

bool PendingSave::ready() const { return !save_ || save_->is_ready(); }

void PendingSave::wait() {
  if (save_) save_->finish();
}

PendingSave begin_save(Session& session, std::function<void()> write) {
  static AtExit at_exit;
  PendingSave pending;
  pending.save_ = make_shared_here<BackgroundSave>(session.plugin->group(), std::move(write));
  session.last_save = pending.save_;
  at_exit.add(pending.save_);
  return pending;
}

void finish_last_save(Session& session) {
  if (const auto last = std::exchange(session.last_save, nullptr)) last->finish();
}

}  // namespace booster
