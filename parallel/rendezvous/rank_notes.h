// Reports from a rank to its run tool, in addition to its output and exit code. Each kind of note
// is one small file at the place that BOOSTER_NOTES names; without that variable nothing is
// written. Also holds this rank's name, for code that prints its errors. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

enum class RankNote {
  follows,  // it fails because another rank failed; the text names that rank
  waits,    // it has waited long for another rank; the text is a LongWait's
  saves     // it writes data that must not be lost; the text names the data
};

// Sets the latest note of a kind, which replaces the earlier one. Write errors are ignored.
void put_note(RankNote kind, std::string_view text);
void withdraw_note(RankNote kind);
// Returns true if a run tool reads this process's notes.
bool notes_are_read();

// Set and return this rank's name and place, "rank 5 (data 1, tensor 2)"; "" before it is known,
// and for a single process. A mesh sets it (parallel/mesh.h); the latest name counts.
void name_this_rank(std::string name);
std::string name_of_this_rank();

// Returns, for the run tool, the note of the rank whose BOOSTER_NOTES is `place`; "" if none.
std::string note_at(const std::string& place, RankNote kind);

// Notes, while the object lives, that this process saves. A process that wants to stop it then
// waits.
class SavingNote {
 public:
  explicit SavingNote(std::string_view what) { put_note(RankNote::saves, what); }
  ~SavingNote() { withdraw_note(RankNote::saves); }
  SavingNote(const SavingNote&) = delete;
};

// A wait for another rank, at a collective or to join.
struct LongWait {
  std::string waits_for;  // "rank 1 (pid 4242 on host)"
  std::string where;      // "all_reduce (call 17)"
  double since = 0;       // seconds of this machine's monotonic clock

  std::string text() const;
  // Parses a note, which may hold anything.
  static LongWait from(const std::string& text);
  // Returns "rank 1 (pid 4242 on host) has not arrived at all_reduce (call 17) for 12 s".
  std::string told() const;
};
double monotonic_seconds();

}  // namespace booster
