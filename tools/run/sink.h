// Standard output or standard error of the run tool. It queues text and writes it when the reader
// is ready, so that a slow reader only delays output.
#pragma once

#include <string>
#include <string_view>

namespace booster {

class Sink {
 public:
  explicit Sink(int file);  // `file` stays open
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void add(std::string_view bytes);
  // Writes as much as the reader accepts now. Drops text that it can never write (full disk, closed
  // reader).
  void write_some();
  // Returns the descriptor to poll for POLLOUT while text is queued, else -1.
  int waiting() const { return text_.empty() ? -1 : file_; }
  // Returns true if no more should be added until the reader catches up.
  bool is_full() const;
  // Discards the queued text.
  void drop() { text_.clear(); }
  // Returns why output was dropped, once: "No space left on device"; "" otherwise.
  std::string take_trouble();

 private:
  int file_;
  bool own_file_ = false;   // opened here, non-blocking
  std::string text_;        // not written yet
  std::string trouble_;
  bool told_ = false;
};

}  // namespace booster
