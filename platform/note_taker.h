// NoteTaker: what a strategy or a plugin would tell the user, kept until somebody who knows which
// rank this is prints it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace booster {

class NoteTaker {
 public:
  // A sentence each, in the order in which they were added, which begins with the name of what says
  // it: "fp16_naive: overflow: step skipped".
  const std::vector<std::string>& notes() const { return notes_; }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  void add_note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> notes_;
};

}  // namespace booster
