// What a rank tells the run tool that started it, besides its output and its exit code: a small
// file per kind of note, at the place that BOOSTER_NOTES names. Without it nobody is told. And who
// it is, for whoever prints its errors. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace booster {

enum class RankNote {
  follows,  // it fails because another rank has; the text says which
  waits,    // it waits long for another; the text is a LongWait's
  saves     // it writes what must not be lost; the text says what
};

// The latest note of a kind counts. What cannot be written is not told.
void put_note(RankNote kind, std::string_view text);
void withdraw_note(RankNote kind);
// Whether somebody reads the notes of this process.
bool notes_are_read();

// Which rank this process is and where it stands, "rank 5 (data 1, tensor 2)"; "" before it knows,
// and alone. A mesh says it (parallel/mesh.h), the last one counts.
void name_this_rank(std::string name);
std::string name_of_this_rank();

// For the run tool: the note of the rank whose BOOSTER_NOTES is `place`; "" if there is none.
std::string note_at(const std::string& place, RankNote kind);

// Says that this process saves as long as it lives, so that who stops it waits for the end.
class SavingNote {
 public:
  explicit SavingNote(std::string_view what) { put_note(RankNote::saves, what); }
  ~SavingNote() { withdraw_note(RankNote::saves); }
  SavingNote(const SavingNote&) = delete;
};

// A rank waits for another at a collective, or to join.
struct LongWait {
  std::string waits_for;  // "rank 1 (pid 4242 on host)"
  std::string where;      // "all_reduce (call 17)"
  double since = 0;       // seconds of the monotonic clock of this machine

  std::string text() const;
  // Of a note that may be anything.
  static LongWait from(const std::string& text);
  // "rank 1 (pid 4242 on host) has not come to all_reduce (call 17) for 12 s".
  std::string told() const;
};
double monotonic_seconds();

}  // namespace booster
