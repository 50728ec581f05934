// NoteTaker: messages of a strategy or a plugin for the user, kept until code that knows the rank
// prints them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace booster {

class NoteTaker {
 public:
  // One sentence each, in the order of add_note. A sentence begins with the name of its author:
  // "fp16_naive: overflow: step skipped".
  const std::vector<std::string>& notes() const { return notes_; }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  void add_note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> notes_;
};

}  // namespace booster
