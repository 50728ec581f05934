#include "core/tensor/later_checks.h"

#include "core/tensor/work_recorder.h"
#include "kernels/device/memory.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace booster {
namespace {

struct LaterCheck {
  Tensor found;
  std::function<void(int64_t)> raise;
};

// A thread that defers more checks than this without a read runs them immediately, and waits.
constexpr size_t most = 256;

std::vector<LaterCheck>& later_checks() {
  thread_local std::vector<LaterCheck> all;
  return all;
}

// Reads without item(), which would run the deferred checks.
int64_t read(const Tensor& found) {
  int64_t number = -1;
  kernels::device_copy(&number, {}, found.data(), found.device(), sizeof number);
  return number;
}

}  // namespace

void check_later(const Tensor& found, std::function<void(int64_t)> raise) {
  if (found.device().type == DeviceType::cpu) {
    if (const int64_t number = read(found); number >= 0) raise(number);
    return;
  }
  if (WorkRecorder* recorder = WorkRecorder::current()) [[unlikely]]
    return recorder->put_off_check(found, std::move(raise));
  later_checks().push_back({found, std::move(raise)});
  if (later_checks().size() > most) run_later_checks(found.device());
}

void check_again_later(const Tensor& found, std::function<void(int64_t)> raise) {
  const auto is_same = [&](const LaterCheck& each) { return each.found.same_body(found); };
  if (std::ranges::none_of(later_checks(), is_same)) check_later(found, std::move(raise));
}

// Takes the checks out of the list first: `raise` reads values itself, and would run them again.
void run_later_checks(Device device) {
  std::vector<LaterCheck>& all = later_checks();
  if (all.empty()) return;
  std::vector<LaterCheck> due, others;
  for (LaterCheck& each : all)
    (each.found.device() == device ? due : others).push_back(std::move(each));
  all = std::move(others);
  for (const LaterCheck& each : due)
    if (const int64_t number = read(each.found); number >= 0) each.raise(number);
}

}  // namespace booster
