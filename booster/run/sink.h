// Standard output or standard error of the run tool: keeps what it is given, and writes it when the
// reader is ready, so that a reader that does not read holds up nothing but output.
#pragma once

#include <string>
#include <string_view>

namespace booster {

class Sink {
 public:
  explicit Sink(int file);  // stays open
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void add(std::string_view bytes);
  // Writes as much as the reader takes now. What can never be written (a full disk, a reader that
  // is gone) is dropped.
  void write_some();
  // What to poll for POLLOUT while something waits; -1 while nothing does.
  int waiting() const { return text_.empty() ? -1 : file_; }
  // More should not be added: the reader is behind.
  bool is_full() const;
  // Forgets what waits.
  void drop() { text_.clear(); }
  // Why output was dropped, told once: "No space left on device"; "" else.
  std::string take_trouble();

 private:
  int file_;
  bool own_file_ = false;   // opened here, and does not block
  std::string text_;        // not written yet
  std::string trouble_;
  bool told_ = false;
};

}  // namespace booster
