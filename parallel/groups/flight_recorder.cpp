#include "parallel/groups/flight_recorder.h"

#include "platform/environment.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace booster {

namespace {

namespace fs = std::filesystem;

double now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_1970).count();
}

// Names of groups and operations are letters, digits and ".-_", so nothing needs escaping.
std::string json_of(const FlightEntry& entry) {
  return fmt::format(
      R"({{"number": {}, "group": "{}", "sequence": {}, "operation": "{}", "for": "{}", )"
      R"("count": {}, "dtype": "{}", "state": "{}", "queued_at": {:.6f}, "began_at": {:.6f}, )"
      R"("ended_at": {:.6f}}})",
      entry.number, *entry.group, entry.sequence, entry.operation, entry.tag.text(), entry.count,
      name_of(entry.dtype), name_of(entry.state), entry.queued_at, entry.began_at, entry.ended_at);
}

}  // namespace

const char* name_of(FlightState state) {
  constexpr const char* names[] = {"queued", "running", "done", "failed"};
  return names[static_cast<size_t>(state)];
}

FlightRecorder& FlightRecorder::of_process() {
  static FlightRecorder* const made = new FlightRecorder;  // outlives every group
  return *made;
}

uint64_t FlightRecorder::add(FlightEntry entry) {
  std::lock_guard lock(mutex_);
  entry.number = ++added_;
  entry.queued_at = now();
  if (entries_.size() == most_entries) entries_.pop_front();
  entries_.push_back(std::move(entry));
  return added_;
}

void FlightRecorder::note(uint64_t number, FlightState state) {
  std::lock_guard lock(mutex_);
  if (entries_.empty() || number < entries_.front().number) return;
  FlightEntry& entry = entries_[number - entries_.front().number];
  entry.state = state;
  (state == FlightState::running ? entry.began_at : entry.ended_at) = now();
}

std::string FlightRecorder::json(int rank, int size) const {
  std::lock_guard lock(mutex_);
  std::string text = fmt::format("{{\"rank\": {}, \"size\": {}, \"entries\": [", rank, size);
  const char* separator = "\n  ";
  for (const FlightEntry& entry : entries_) {
    text += separator + json_of(entry);
    separator = ",\n  ";
  }
  return text + "\n]}\n";
}

void FlightRecorder::write_once(int rank, int size) {
  const std::string folder = environment::text("BOOSTER_FLIGHT_RECORD");
  if (folder.empty()) return;
  std::lock_guard lock(writing_);
  if (std::exchange(written_, true)) return;
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path path = fs::path(folder) / fmt::format("flight-{}.json", rank);
  const fs::path temporary = path.string() + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file << json(rank, size);
  file.close();
  if (file) fs::rename(temporary, path, error);
  if (!file || error)
    warn(fmt::format("booster: cannot write {} (BOOSTER_FLIGHT_RECORD)", path.string()));
}

}  // namespace booster
