// A place that one process holds: a file that stays locked until the process ends, for any reason.
// Its text identifies the process. The file appears under its name already locked and filled.
//
// The lock is the process's own (POSIX): children do not inherit it. One thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace booster {

class Place {
 public:
  // Takes the place for this process. Returns nothing if the file exists already, or if its folder
  // is gone. Throws if it cannot be written for another reason.
  static std::optional<Place> take(const std::string& path, std::string_view text);
  // Returns another process's place. Nothing if there is none, or if the file is invalid: a link,
  // not a regular file, another user's or too long.
  static std::optional<Place> look(const std::string& path);
  // Removes a file that no living process holds. Other processes may do the same, or take the
  // place, meanwhile.
  static void clear(const std::string& path);

  Place(Place&& other) noexcept;
  Place& operator=(Place&& other) noexcept;
  ~Place();  // releases the place

  const std::string& text() const { return text_; }
  // Returns whether another living process holds it, on this machine or in a container on it.
  bool is_held() const { return holder().has_value(); }
  // Returns the holder, or 0 if it has no number here: it is in another PID namespace.
  std::optional<pid_t> holder() const;

 private:
  Place(int file, std::string text) : file_(file), text_(std::move(text)) {}
  int file_;
  std::string text_;
};

// Returns whether the path is this user's folder, not a link, and closed to all other users.
bool is_private_folder(const std::string& path);

// Returns the text of a private file that another process wrote. Nothing if there is none, or if it
// is a link, not a regular file, another user's or longer than 1 MB. Never waits.
std::optional<std::string> read_private(const std::string& path);

}  // namespace booster
