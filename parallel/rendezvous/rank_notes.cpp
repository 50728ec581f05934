#include "parallel/rendezvous/rank_notes.h"

#include "parallel/rendezvous/place.h"
#include "platform/decimal.h"
#include "platform/environment.h"
#include "platform/warn.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <utility>

#include <unistd.h>

namespace booster {

namespace {

// Returns the file for this rank's notes; "" if it makes none.
std::string place_of_notes() { return environment::text("BOOSTER_NOTES"); }

std::string path_of(const std::string& place, RankNote kind) {
  constexpr const char* names[] = {"follows", "waits", "saves"};
  return fmt::format("{}.{}", place, names[static_cast<int>(kind)]);
}

}  // namespace

void put_note(RankNote kind, std::string_view text) {
  const std::string place = place_of_notes();
  if (place.empty()) return;
  const std::string path = path_of(place, kind), temporary = path + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

void withdraw_note(RankNote kind) {
  if (const std::string place = place_of_notes(); !place.empty())
    unlink(path_of(place, kind).c_str());
}

namespace {
std::mutex name_mutex;
std::string& name_of_process() {
  static auto* const name = new std::string;  // errors are printed until the very end
  return *name;
}
}  // namespace

void name_this_rank(std::string name) {
  std::lock_guard lock(name_mutex);
  name_of_process() = std::move(name);
}

std::string name_of_this_rank() {
  std::lock_guard lock(name_mutex);
  return name_of_process();
}

bool notes_are_read() { return !place_of_notes().empty(); }

std::string note_at(const std::string& place, RankNote kind) {
  return place.empty() ? "" : read_private(path_of(place, kind)).value_or("");
}

std::string LongWait::text() const { return fmt::format("{}\n{}\n{}", waits_for, where, since); }

LongWait LongWait::from(const std::string& text) {
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  if (first == text.npos || second == text.npos) return {};
  return {terminal_text(text.substr(0, first)),
          terminal_text(text.substr(first + 1, second - first - 1)),
          decimal_number(std::string_view(text).substr(second + 1)).value_or(0)};
}

std::string LongWait::told() const {
  return fmt::format("{} has not arrived at {} for {:.0f} s", waits_for, where,
                     monotonic_seconds() - since);
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace booster
