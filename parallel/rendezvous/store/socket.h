// A TCP connection or a listening socket. Thread-safe if two threads use it for different
// directions.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace booster {

// "tcp://HOST:PORT" or "tcp://[::1]:PORT".
struct Endpoint {
  std::string host;
  int port = 0;
  // Parses "tcp://HOST:PORT"; throws for anything else.
  static Endpoint from(const std::string& place);
  std::string text() const;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  // Listens at this host's port. A loopback host listens only on loopback. Another host listens on
  // its address if this machine has it, else on all addresses, since a name may resolve differently
  // here. Returns an undefined socket, and the reason in `problem`, if that fails.
  static Socket listening(const Endpoint& endpoint, std::string& problem);
  // Connects. Returns an undefined socket, and the reason in `problem`, if that takes longer than
  // `limit`.
  static Socket connected(const Endpoint& endpoint, std::chrono::milliseconds limit,
                          std::string& problem);
  // Returns the next waiting connection; undefined if there is none.
  Socket accept() const;

  bool defined() const { return file_ >= 0; }
  int file() const { return file_; }
  // Appends the received bytes; returns false once the other side has closed or the connection is
  // broken.
  bool read_into(std::string& bytes) const;
  // Sends as much as possible now and removes it from `bytes`; returns false if the connection is
  // broken.
  bool write_from(std::string& bytes) const;
  // Sends all; returns false if the connection is broken or the other side accepts nothing within
  // `limit`.
  bool write_all(std::string_view bytes, std::chrono::milliseconds limit) const;
  // Tells the other side that nothing more comes; it can still send.
  void end_sending() const;
  // Returns this end's address, and whether both ends are on this machine's loopback.
  std::string own_address() const;
  bool is_loopback() const;

 private:
  int file_ = -1;
};

}  // namespace booster
