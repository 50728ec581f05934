#include "booster/checkpoint/training/finish_together.h"

#include "parallel/groups/group.h"
#include "parallel/rendezvous/rendezvous.h"
#include "platform/system_limits.h"

#include <algorithm>
#include <chrono>

namespace booster {

namespace {

// Returns the interval between two signs of life.
std::chrono::milliseconds patience() {
  return std::clamp(group_timeout() / 4, std::chrono::milliseconds(1),
                    std::chrono::milliseconds(1000));
}

// Returns when all ranks are done.
void wait_for_all(const Group& group, const std::future<void>& mine) {
  const auto slice = patience();
  std::vector<int64_t> busy = {1};
  while (busy[0]) {
    const bool done = !mine.valid() || mine.wait_for(slice) == std::future_status::ready;
    busy[0] = done ? 0 : 1;
    group.all_reduce(busy, CollectiveOp::max);
  }
}

std::string text_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return text_of_error(failure);
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

void fail_together(const Group& group, const char* what, const std::exception_ptr& error) {
  const auto problems = gather_text(text_of(error), group);
  if (error) std::rethrow_exception(error);
  for (size_t rank = 0; rank < problems.size(); ++rank)
    if (!problems[rank].empty()) fail_run("{}: rank {}: {}", what, rank, problems[rank]);
}

namespace {

std::exception_ptr error_of(const std::function<void()>& act) {
  try {
    act();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void finish(const Group& group, const char* what, std::future<void>& mine,
            std::exception_ptr error) {
  wait_for_all(group, mine);
  if (mine.valid()) error = error_of([&] { mine.get(); });
  fail_together(group, what, error);
}

}  // namespace

void finish_together(const Group& group, const char* what, const std::function<void()>& work) {
  if (group.size() == 1) return work ? work() : void();
  std::future<void> mine;
  const auto error = error_of([&] {
    if (work) mine = std::async(std::launch::async, work);  // throws if no thread can be started
  });
  finish(group, what, mine, error);
}

void finish_together(const Group& group, const char* what, std::future<void> mine) {
  if (group.size() == 1) return mine.valid() ? mine.get() : void();
  finish(group, what, mine, nullptr);
}

void run_together(const Group& group, const char* what, const std::function<void()>& work) {
  fail_together(group, what, error_of(work));
}

}  // namespace booster
