#include "tests/file_faults.h"

#include "platform/files/file_operations.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace booster::test {

namespace {

// Counts operations down to the one that fails.
struct Fault {
  std::atomic<int64_t> left{0};  // 0: off
  std::atomic<int> error{0};

  bool is_due() { return left != 0 && --left <= 0; }
  void set(int64_t n, int with) {
    error = with;
    left = n;
  }
};

class Faults final : public FileFaults {
 public:
  int changing() override {
    if (const int delay = delay_ms; delay > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    if (!operations.is_due()) return 0;
    if (operations.error == 0) ::raise(SIGKILL);
    return operations.error;
  }
  int reading() override { return reads.is_due() ? reads.error.load() : 0; }
  bool swaps_folders() override { return !no_exchange; }

  Fault operations, reads;
  std::atomic<int> delay_ms{0};
  std::atomic<bool> no_exchange{false};
};

// Returns the faults of this process, in force from the first call on.
Faults& faults() {
  static auto* const all = [] {
    auto* made = new Faults;  // other threads may use files until the very end
    file_faults = made;
    return made;
  }();
  return *all;
}

}  // namespace

void fail_file_operation(int64_t n, int error) { faults().operations.set(n, error); }

void fail_file_read(int64_t n, int error) { faults().reads.set(n, error); }

void delay_file_operations(int milliseconds) { faults().delay_ms = milliseconds; }

void forbid_exchange(bool forbidden) { faults().no_exchange = forbidden; }

}  // namespace booster::test
