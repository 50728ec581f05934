// A record of this process's last 512 operations with other ranks, and how far each got. After a
// hang or a failure, the records of all ranks show where they diverged.
//
// A rank writes its record once: if its operation fails, or if SIGTERM ends it
// (parallel/groups/record_at_sigterm.h). The file is BOOSTER_FLIGHT_RECORD/flight-RANK.json, if
// that folder is set (`booster run --log_dir` sets it). `booster inspect` compares the files.
// Thread-safe.
#pragma once

#include "kernels/arguments/view.h"
#include "parallel/operations/operation.h"
#include "parallel/operations/operation_tag.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace booster {

enum class FlightState { queued, running, done, failed };
const char* name_of(FlightState state);

// One operation of a group.
struct FlightEntry {
  uint64_t number = 0;    // among all operations of this process, from 1
  uint64_t sequence = 0;  // among its group's operations, from 1
  std::shared_ptr<const std::string> group;
  const char* operation = "";
  OperationTag tag = {};
  int64_t count = 0;  // elements that it reads; if none, that it writes
  DType dtype = DType::f32;
  FlightState state = FlightState::queued;
  double queued_at = 0, began_at = 0, ended_at = 0;  // seconds since 1970; 0: not yet
};

class FlightRecorder {
 public:
  static constexpr size_t most_entries = 512;
  static FlightRecorder& of_process();

  // Adds an entry, queued now; returns its number.
  uint64_t add(FlightEntry entry);
  // Sets the entry's state. Ignores an entry that is no longer kept.
  void note(uint64_t number, FlightState state);
  // Returns JSON: {"rank", "size", "entries": [...]}, the oldest entry first.
  std::string json(int rank, int size) const;
  // Writes the record once per process; returns once any thread has written it. Write errors go to
  // stderr.
  void write_once(int rank, int size);

 private:
  mutable std::mutex mutex_;
  std::deque<FlightEntry> entries_;
  uint64_t added_ = 0;
  std::mutex writing_;
  bool written_ = false;  // guarded by writing_
};

}  // namespace booster
