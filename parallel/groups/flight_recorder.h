// What this process last did together with other ranks: its last 512 operations and how far each
// came. After a hang or a failure the records of all ranks show where they parted.
//
// A rank whose operation fails, or that SIGTERM ends (parallel/groups/record_at_sigterm.h), writes
// its record once, as BOOSTER_FLIGHT_RECORD/flight-RANK.json, if that folder is named (`booster run
// --log_dir` names it); `booster inspect` compares them. Thread-safe.
#pragma once

#include "kernels/arguments/view.h"
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
  uint64_t number = 0;    // of all operations of this process, from 1
  uint64_t sequence = 0;  // of those of its group, from 1
  std::shared_ptr<const std::string> group;
  const char* operation = "";
  OperationTag tag = {};
  int64_t count = 0;  // elements that it reads, or writes where it reads none
  DType dtype = DType::f32;
  FlightState state = FlightState::queued;
  double queued_at = 0, began_at = 0, ended_at = 0;  // seconds since 1970; 0: not yet
};

class FlightRecorder {
 public:
  static constexpr size_t most_entries = 512;
  static FlightRecorder& of_process();

  // A new entry, queued now; returns its number.
  uint64_t add(FlightEntry entry);
  // The entry is in this state from now on. One that is no longer kept is passed over.
  void note(uint64_t number, FlightState state);
  // JSON: {"rank", "size", "entries": [...]}, the oldest entry first.
  std::string json(int rank, int size) const;
  // Writes the record, once in a process, and returns when it is written, by whomever; what cannot
  // be written is told on stderr.
  void write_once(int rank, int size);

 private:
  mutable std::mutex mutex_;
  std::deque<FlightEntry> entries_;
  uint64_t added_ = 0;
  std::mutex writing_;
  bool written_ = false;  // guarded by writing_
};

}  // namespace booster
