// A TCP connection or a place to wait for some. Thread-safe where two threads use it for different
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
  // Error for anything else.
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

  // Waits for connections at this host's port: on loopback alone where the host is a loopback
  // address, on the host's address where this machine has it, else (a name that means another
  // address here than elsewhere) on all. Undefined, with the reason in `problem`, if that fails.
  static Socket listening(const Endpoint& endpoint, std::string& problem);
  // Undefined, with the reason in `problem`, if there is no connection within `limit`.
  static Socket connected(const Endpoint& endpoint, std::chrono::milliseconds limit,
                          std::string& problem);
  // The next connection that waits; undefined if none does.
  Socket accept() const;

  bool defined() const { return file_ >= 0; }
  int file() const { return file_; }
  // Appends what has arrived; false once the other side has ended or the connection is broken.
  bool read_into(std::string& bytes) const;
  // Removes what could be sent now; false when the connection is broken.
  bool write_from(std::string& bytes) const;
  // Sends all; false when the connection is broken or the other side takes nothing within `limit`.
  bool write_all(std::string_view bytes, std::chrono::milliseconds limit) const;
  // Own address, and whether both ends are on this machine's loopback.
  std::string own_address() const;
  bool is_loopback() const;

 private:
  int file_ = -1;
};

}  // namespace booster
