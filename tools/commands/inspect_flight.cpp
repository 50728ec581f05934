// Compares the flight records of all ranks (parallel/groups/flight_recorder.h).
#include "tools/commands/inspect_flight.h"

#include "booster/checkpoint/folder/checkpoint.h"
#include "platform/error.h"
#include "platform/json/json_document.h"
#include "platform/warn.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace booster::cli {

namespace {

namespace fs = std::filesystem;

struct Call {
  uint64_t sequence = 0;
  std::string what;   // "all_reduce of 400 f32 for bucket 3"
  std::string state;  // "queued", "running", "done" or "failed"
  bool between_two = false;
};

struct Record {
  int64_t rank = 0, size = 0;
  std::map<std::string, std::vector<Call>> groups;  // calls in order, by group
};

Record record_at(const fs::path& path) {
  const nlohmann::json json = read_json(path, {.bytes = 4 << 20}, ErrorKind::data).to_json();
  const StateReader whole(json, path.string() + ": no flight record");
  Record record;
  record.rank = whole.member("rank").count();
  record.size = whole.member("size").count();
  for (const StateReader& entry : whole.member("entries").items()) {
    const auto text = [&](const char* name) { return terminal_text(entry.member(name).text()); };
    const std::string operation = text("operation");
    const int64_t count = entry.member("count").count();
    std::string what = operation;
    if (operation != "barrier") what += fmt::format(" of {} {}", count, text("dtype"));
    if (const auto purpose = entry.find("for"); purpose && !purpose->text().empty())
      what += " for " + terminal_text(purpose->text());
    record.groups[text("group")].push_back(
        {static_cast<uint64_t>(entry.member("sequence").count()), what, text("state"),
         operation.starts_with("send") || operation == "receive"});
  }
  return record;
}

std::vector<fs::path> records_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("flight-") && name.ends_with(".json")) found.push_back(entry.path());
  }
  return found;
}

// Returns the first call of a group that some rank has not completed.
uint64_t first_open_call(const std::map<int64_t, std::vector<Call>>& by_rank) {
  uint64_t open = UINT64_MAX;
  for (const auto& [rank, calls] : by_rank) {
    uint64_t next = calls.back().sequence + 1;
    for (const Call& call : calls)
      if (call.state != "done") next = std::min(next, call.sequence);
    open = std::min(open, next);
  }
  return open;
}

void print_group(const std::string& name, const std::map<int64_t, std::vector<Call>>& by_rank) {
  bool between_two = false;
  for (const auto& [rank, calls] : by_rank)
    between_two |= std::ranges::any_of(calls, &Call::between_two);
  const uint64_t open = first_open_call(by_rank);
  fmt::print("group {}{}\n", name,
             between_two ? "" : fmt::format(", which is complete up to call {}", open - 1));
  for (const auto& [rank, calls] : by_rank) {
    // In calls between two ranks each rank has its own count, so other ranks' sequence numbers do
    // not apply.
    const auto at = between_two ? std::ranges::find_if(
                                      calls, [](const Call& call) { return call.state != "done"; })
                                : std::ranges::find(calls, open, &Call::sequence);
    if (at == calls.end())
      fmt::print("  rank {}: got to call {}, {}\n", rank, calls.back().sequence, calls.back().what);
    else
      fmt::print("  rank {}: call {}, {}: {}; {} calls after it\n", rank, at->sequence, at->what,
                 at->state, calls.end() - at - 1);
  }
}

}  // namespace

bool holds_flight_records(const fs::path& path) {
  return fs::is_directory(path) && !records_in(path).empty();
}

void print_flight_records(const fs::path& folder) {
  std::map<std::string, std::map<int64_t, std::vector<Call>>> groups;
  std::map<int64_t, bool> present;
  int64_t size = 0;
  for (const fs::path& path : records_in(folder)) {
    Record record = record_at(path);
    size = std::max(size, record.size);
    present[record.rank] = true;
    for (auto& [name, calls] : record.groups) groups[name][record.rank] = std::move(calls);
  }
  fmt::print("{}: records of {} of {} ranks\n", terminal_text(folder.string()), present.size(),
             size);
  for (int64_t rank = 0; rank < std::min<int64_t>(size, 4096); ++rank)
    if (!present[rank])
      fmt::print("  no record of rank {}: no call of it failed, or it was killed\n", rank);
  for (const auto& [name, by_rank] : groups) print_group(name, by_rank);
}

}  // namespace booster::cli
